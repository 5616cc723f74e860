"""Memory for blocks that are read, scored and dropped.

Memory that is fresh from the operating system costs more than reading a file into it, so it is used again.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALL = 1 << 20  # bytes; smaller arrays are not worth keeping
_STEP = 1 << 22  # sizes are multiples of it, so that blocks of nearly equal size share memory
_MOST = 1 << 28  # bytes that are kept while nobody uses them


def _references(buffers: list[NDArray[np.uint8]]) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Buffers, and how many references to each there are."""
    for buffer in buffers:
        yield buffer, sys.getrefcount(buffer)


# References to a buffer that only a list has. How many the counting itself adds depends on Python's version.
_UNUSED = max(count for _, count in _references([np.empty(1, np.uint8)]))


class BufferPool:
    """Arrays whose memory is used again when nobody holds them, or a view of them, any more."""

    def __init__(self) -> None:
        self.buffers: list[NDArray[np.uint8]] = []
        self.lock = threading.Lock()

    def empty(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """An array with any content, as ``numpy.empty`` makes it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _SMALL:
            return np.empty(shape, dtype)
        with self.lock:
            found = self._unused(size)
            self._drop()
            if found is None:
                found = np.empty(-(-size // _STEP) * _STEP, np.uint8)
                self.buffers.append(found)
            return found[:size].view(dtype).reshape(shape)

    def _unused(self, size: int) -> NDArray[np.uint8] | None:
        """A buffer for so many bytes that nobody uses."""
        for buffer, references in _references(self.buffers):
            if size <= buffer.nbytes <= 2 * size + _STEP and references <= _UNUSED:
                return buffer
        return None

    def _drop(self) -> None:
        """Forget buffers that nobody uses, but for a few."""
        kept, unused = [], 0
        for buffer, references in _references(self.buffers):
            unused += buffer.nbytes if references <= _UNUSED else 0
            if unused <= _MOST or references > _UNUSED:
                kept.append(buffer)
        self.buffers = kept


BUFFERS = BufferPool()
