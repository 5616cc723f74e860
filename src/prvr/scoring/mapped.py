"""Arrays in plain files, mapped into memory rather than read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.errors import UserError

PAGED = ("local.values", "local.scale", "keys.values", "keys.scale", "routes.grounding")  # arrays with a row per page


class GalleryError(UserError):
    """A folder that is not a gallery, or a damaged one. The message says what was found."""


def map_array(path: Path, described: dict[str, Any], *, growing: bool = False) -> NDArray[Any]:
    """An array mapped into memory.

    Args:
        path: a file with the numbers.
        described: the ``dtype`` by its name, and the ``shape``.
        growing: the file may be longer than the array.
    """
    dtype, shape = np.dtype(described["dtype"]), described["shape"]
    return map_bytes(path, math.prod(shape) * dtype.itemsize, growing).view(dtype).reshape(shape)


def map_bytes(path: Path, expected: int, growing: bool) -> NDArray[np.uint8]:
    """So many bytes of a file. They are copied if they are changed: torch warns about arrays that it may not write."""
    size = path.stat().st_size if path.exists() else 0
    if size < expected or (size > expected and not growing):
        raise GalleryError(f"{path} holds {size} bytes, expected {expected}: the gallery is damaged, rebuild it")
    if expected == 0:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "c", shape=(expected,)))


def array_bytes(array: NDArray[Any]) -> memoryview:
    """The numbers of an array, as they are written to a file."""
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)
