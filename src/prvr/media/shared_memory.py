"""Memory that two processes share. It has no name in a file system, so nothing is left when both are killed."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SharedMemory:
    """Some bytes. The process that creates them starts the other with ``handles`` and tells it the ``name``."""

    def __init__(self, memory: mmap.mmap, name: str, handles: tuple[int, ...]):
        self._memory, self.name, self.handles = memory, name, handles

    @staticmethod
    def create(size: int) -> SharedMemory:
        if sys.platform == "win32":
            name = f"prvr-{uuid.uuid4().hex}"
            return SharedMemory(mmap.mmap(-1, size, tagname=name), f"{size} {name}", ())
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("prvr-frames")
        else:
            with tempfile.TemporaryFile() as file:  # unnamed
                handle = os.dup(file.fileno())
        os.ftruncate(handle, size)
        return SharedMemory(mmap.mmap(handle, size), f"{size} {handle}", (handle,))

    @staticmethod
    def attach(name: str) -> SharedMemory:
        """The memory that the process which started this one created."""
        size, place = name.split()
        if sys.platform == "win32":
            return SharedMemory(mmap.mmap(-1, int(size), tagname=place), name, ())
        return SharedMemory(mmap.mmap(int(place), int(size)), name, ())

    def name_there(self, handles: Sequence[int]) -> str:
        """Its name in a process where the handles have these numbers."""
        return f"{len(self._memory)} {handles[0]}" if handles else self.name

    def close_handles(self) -> None:
        """After the other process was started."""
        for handle in self.handles:
            os.close(handle)
        self.handles = ()

    def array(self, *shape: int) -> NDArray[np.uint8]:
        """The bytes as an array of this shape, of which one side may be -1."""
        flat: NDArray[Any] = np.frombuffer(self._memory, np.uint8)
        return flat.reshape(shape)
