"""The files of a shard: they are read, and blocks that are read a second time stay in memory.

Nothing is mapped into memory. The operating system kills a process that looks at a mapped file behind its end (SIGBUS),
so a file that is cut during a search, or a disk that fails, would end a server. Reading such a file is only an error.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError, TooFewFiles
from prvr.library.store.blocks import SectionBlock
from prvr.processes import usable_memory

CACHE_MEGABYTES = "PRVR_LIBRARY_CACHE"  # environment variable: memory for blocks that were read
_PIECE = 1 << 23  # bytes that one thread reads at a time
_SHARE = 4  # part of the memory that this process may use, by default

BlockKey = tuple[int, int, int, int]  # first row and the row after the last, first page and the page after the last


class UnreadableShard(Exception):
    """The files of a shard end too early, or the disk fails."""


@cache
def _readers(process: int) -> ThreadPoolExecutor:
    """Threads that read, of this process: a fork has none of those that were started before."""
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="prvr-read")


class _Memory:
    """Bytes of blocks that may stay in memory, in all libraries of this process."""

    def __init__(self) -> None:
        self.used, self.lock = 0, threading.RLock()  # __del__ may come at any time, also inside of it
        self.eager = False  # whether blocks stay when they are read for the first time

    @cached_property
    def most(self) -> int:
        text = os.environ.get(CACHE_MEGABYTES)
        if text is None:
            return usable_memory() // _SHARE
        try:
            found = int(float(text) * (1 << 20))
        except (ValueError, OverflowError):
            found = -1
        if found < 0:
            raise LibraryError(f"{CACHE_MEGABYTES} is a number of megabytes, not {text!r}")
        return found

    def take(self, size: int, always: bool = False) -> bool:
        """Whether so many bytes may stay."""
        most = self.most
        with self.lock:
            fits = always or self.used + size <= most
            self.used += size if fits else 0
            return fits

    def give_back(self, size: int) -> None:
        with self.lock:
            self.used -= size


MEMORY = _Memory()


class ShardFiles:
    """The open files of a shard, and blocks of it that are kept. Open files can be read after a compaction as well."""

    def __init__(self, place: Path, names: Sequence[str]):
        self.place = place
        self.handles: dict[str, int] = {}
        self.kept: dict[BlockKey, SectionBlock] = {}
        self.seen: dict[int, BlockKey] = {}  # blocks that were read before, by their first row
        self.frames: dict[int, NDArray[np.float16]] = {}  # by row, pages of frames for a witness that are kept
        self.lock = threading.Lock()
        for name in names:
            self.handles[name] = _open(place / f"{name}.bin")

    def is_current(self) -> bool:
        """Whether these are still the files that are found under their names."""
        try:
            return all(os.path.samestat(self.path(name).stat(), os.fstat(h)) for name, h in self.handles.items())
        except OSError:
            return False

    def path(self, name: str) -> Path:
        return self.place / f"{name}.bin"

    def size(self, name: str) -> int:
        return os.fstat(self.handles[name]).st_size

    def read(self, name: str, place: int, into: memoryview) -> None:
        """Fill a buffer with the bytes that begin at a place."""
        pieces = [(name, place + first, into[first : first + _PIECE]) for first in range(0, len(into), _PIECE)]
        if len(pieces) > 1:
            for _ in _readers(os.getpid()).map(lambda piece: self._read_piece(*piece), pieces):
                pass
        elif pieces:
            self._read_piece(*pieces[0])

    def _read_piece(self, name: str, place: int, into: memoryview) -> None:
        try:
            while len(into):
                count = self._read_some(self.handles[name], place, into)
                if count == 0:
                    raise UnreadableShard(f"{self.path(name)} ends too early")
                place, into = place + count, into[count:]
        except OSError as problem:
            raise UnreadableShard(f"{self.path(name)}: {problem.strerror}") from problem

    def _read_some(self, handle: int, place: int, into: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(handle, [into], place)
        with self.lock:  # Windows
            os.lseek(handle, place, os.SEEK_SET)
            data = os.read(handle, len(into))
        into[: len(data)] = data
        return len(data)

    def may_keep(self, key: BlockKey, size: int) -> bool:
        """Whether a block of so many bytes, once it is read, is likely to stay in memory."""
        return (MEMORY.eager or self.seen.get(key[0]) == key) and MEMORY.used + size <= MEMORY.most

    def keep(self, key: BlockKey, block: SectionBlock, *, at_once: bool = False) -> SectionBlock:
        """Keep a block in memory if it was read before and there is room; commands that search once keep nothing.

        Nor are blocks kept in which zeros stand for something: the rows may be of a video in another snapshot.

        Returns:
            The block. ``stays`` says whether it was kept.
        """
        with self.lock:
            for old in [each for each in self.kept if each[0] == key[0]]:  # rows were added to it since
                self._drop(old)
            wanted = block.whole and (at_once or self.may_keep(key, block.nbytes))
            if wanted and MEMORY.take(block.nbytes, at_once):
                block = self.kept[key] = replace(block, stays=True)
            self.seen[key[0]] = key
        return block

    def keep_frames(self, frames: Mapping[int, NDArray[np.float16]]) -> None:
        """Keep what a witness reads of some rows in memory, if there is room: the same videos are often the best."""
        with self.lock:
            new = {row: pages for row, pages in frames.items() if row not in self.frames}
            if MEMORY.take(sum(pages.nbytes for pages in new.values())):
                self.frames |= new

    def forget(self) -> None:
        """Read everything from the files again."""
        with self.lock:
            MEMORY.give_back(sum(pages.nbytes for pages in self.frames.values()))
            self.frames.clear()
            for key in [*self.kept]:
                self._drop(key)

    def _drop(self, key: BlockKey) -> None:
        MEMORY.give_back(self.kept.pop(key).nbytes)

    def __del__(self) -> None:
        for handle in self.handles.values():
            os.close(handle)
        self.forget()


def _open(path: Path) -> int:
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)
    except OSError as problem:
        if problem.errno in (errno.EMFILE, errno.ENFILE):
            raise TooFewFiles from None
        raise
