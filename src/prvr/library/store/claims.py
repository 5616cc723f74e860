"""Claims on files: one process or thread at a time works on a path, and a killed one loses its claim by itself."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from prvr.media import VideoFile

CLAIMS_FOLDER = "claims"


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


def claim(folder: Path, path: VideoFile, *, wait: bool = False) -> Claim | None:
    """Claim a path in the library in ``folder``. Returns None if another process has it, unless ``wait`` is given."""
    name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    file = folder / CLAIMS_FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        return None
    return Claim(lock)
