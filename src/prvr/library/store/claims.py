"""Who works on which file: one process or thread at a time, and a killed one lets go by itself."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

CLAIMS = "claims"


class Claim:
    """The right to work on a path, held until released."""

    def __init__(self, lock: Path, handle: int):
        self.lock, self.handle = lock, handle

    def release(self) -> None:
        with contextlib.suppress(OSError):  # a disk that became read-only: the lock itself is what counts
            self.lock.unlink()
        os.close(self.handle)


def claim(folder: Path, path: Path, *, wait: bool = False) -> Claim | None:
    """Claim a path, or None where another process has it."""
    lock = folder / CLAIMS / hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        if _is(lock, handle):
            return Claim(lock, handle)
        os.close(handle)  # whoever had it deleted the file in between: take the new one


def _is(lock: Path, handle: int) -> bool:
    try:
        there, here = lock.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)
