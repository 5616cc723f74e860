"""Claims on files: one process or thread at a time works on a path, and a killed one loses its claim by itself."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import platform
import time
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from prvr.library.errors import LibraryError
from prvr.media import VideoFile

CLAIMS_FOLDER = "claims"
_WAIT_SECONDS = 30.0  # for a process that works on the same file and says nothing new


class HeldClaim(Protocol):
    """The right to work on a file, so that two processes do not index it at the same time."""

    def release(self) -> None: ...


class Claim:
    """The right to work on a path, held until released. Any thread may release it."""

    def __init__(self, lock: FileLock):
        self._lock = lock

    def release(self) -> None:
        with contextlib.suppress(OSError):  # a read-only disk, or a system that keeps open files
            Path(self._lock.lock_file).unlink()  # while it is locked: whoever waits for it then makes a new file
        self._lock.release()


class ClaimHeld(LibraryError):
    """Another process works on a file and does not get on. ``reason`` is the message without the file's name."""

    def __init__(self, path: VideoFile, holder: str):
        self.reason = (
            f"{holder or 'another process'} works on it and has not gone on for {_WAIT_SECONDS:.0f} seconds: run the "
            "command again when it has finished, or end it if it hangs"
        )
        super().__init__(f"{path}: {self.reason}")


def claim(folder: Path, path: VideoFile, *, wait: bool = False) -> Claim | None:
    """Claim a path in the library in ``folder``. Returns None if another process has it, unless ``wait`` is given.

    Raises:
        ClaimHeld: with ``wait``, if the process that has it says nothing new for half a minute.
    """
    file = _file(folder, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file, mode=0o666, thread_local=False)
    while True:
        try:
            lock.acquire(timeout=_WAIT_SECONDS if wait else 0)
            break
        except Timeout:
            if not wait:
                return None
            holder = claim_holder(folder, path)
            if not _gets_on(folder, holder):
                raise ClaimHeld(path, holder) from None
    with contextlib.suppress(OSError):  # Windows lets nobody write into a locked file
        file.write_text(f"process {os.getpid()} on {platform.node()}", "utf-8")
    return Claim(lock)


def sweep_claims(folder: Path) -> None:
    """Delete the claims of processes that were killed."""
    for file in (folder / CLAIMS_FOLDER).glob("*"):
        lock = FileLock(file, mode=0o666, thread_local=False)
        with contextlib.suppress(OSError, Timeout):
            lock.acquire(timeout=0)
            Claim(lock).release()


def _file(folder: Path, path: VideoFile) -> Path:
    name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return folder / CLAIMS_FOLDER / name


def claim_holder(folder: Path, path: VideoFile) -> str:
    """Which process has claimed a path; "" if nobody knows."""
    try:
        return _file(folder, path).read_bytes()[:200].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _gets_on(folder: Path, holder: str) -> bool:
    """Whether the process that holds a claim has said something new of late; see ``activity.py``."""
    process, _, machine = holder.removeprefix("process ").partition(" on ")
    for file in (folder / "activity").glob(f"{glob.escape(machine)}-{process}-*.json"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime < _WAIT_SECONDS:
                return True
    return False
