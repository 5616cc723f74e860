"""A file whose room on the disk is taken before anything is written into it."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any


class ReservedFile(io.RawIOBase):
    """A new file for HDF5, which does not survive a disk that fills up while it writes.

    All bytes are reserved at once, so that a full disk, a quota or a limit is an ``OSError`` before HDF5 begins. The
    file looks empty at first and grows within the room; what is left over is given back when it is closed.
    """

    def __init__(self, path: Path, room: int):
        self._handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        self._place = self._size = 0
        try:
            if hasattr(os, "posix_fallocate"):  # not on macOS and Windows
                os.posix_fallocate(self._handle, 0, room)
        except OSError:
            os.close(self._handle)
            raise

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def truncate(self, size: int | None = None) -> int:
        self._size = self._place if size is None else size
        return self._size

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = os.preadv(self._handle, [view[: max(0, self._size - self._place)]], self._place)
        self._place += count
        return count

    def write(self, data: Any) -> int:
        count = os.pwrite(self._handle, data, self._place)
        self._place += count
        self._size = max(self._size, self._place)
        return count

    def close(self) -> None:
        if not self.closed:
            try:
                os.ftruncate(self._handle, self._size)
            finally:
                os.close(self._handle)
        super().close()
