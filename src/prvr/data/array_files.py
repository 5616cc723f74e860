"""Reads one array from a .npy, .npz or .pt file. Nothing in the file is executed, and no more is read than it holds.

A .npz or .pt file may hold several arrays by name: ``features`` (frames) or ``last_hidden_state`` (words) is taken, or
the only one.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection as AnyCollection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from prvr.data.errors import DataError

ARRAY_ENDINGS = (".npy", ".npz", ".pt")
MOST_PACKED = 64  # times that compressed numbers may grow; features of real numbers grow less than ten times
SMALL = 1 << 24  # bytes that anything compressed may have
_NAMES = ("features", "last_hidden_state")


def array_shape(path: Path) -> tuple[int, int]:
    """Rows and width of a file's array, read from its head where that is possible."""
    if path.suffix == ".pt":
        rows, width = read_array(path).shape
        return rows, width
    return _guarded(path, lambda: _opened(path, _head))


def read_array(path: Path) -> NDArray[np.float32]:
    """A file's array as (rows, width); a single vector is one row.

    Raises:
        DataError: the file is damaged, holds something else, or claims more than it holds.
    """
    return _guarded(path, lambda: _tensor(path) if path.suffix == ".pt" else _opened(path, _array))


def _guarded(path: Path, read: Any) -> Any:
    try:
        return read()
    except DataError:
        raise
    except Exception as problem:  # damaged input raises many types of errors
        why = str(problem).strip().split("\n")[0][:120] or type(problem).__name__
        raise DataError(f"{path} cannot be read ({why}); download it again.") from problem


def _opened(path: Path, read: Any) -> Any:
    """Call ``read(stream, size, path)`` with the .npy content of a file."""
    if path.suffix == ".npy":
        with path.open("rb") as file:
            return read(file, path.stat().st_size, path)
    with zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        info = archive.getinfo(names[_chosen(path, names)])
        if info.file_size > max(min(info.compress_size, path.stat().st_size) * MOST_PACKED, SMALL):
            raise DataError(f"{path} unpacks to {info.file_size:,} bytes; it is damaged: download it again.")
        with archive.open(info) as packed:
            return read(io.BytesIO(packed.read(info.file_size)), info.file_size, path)


def _head(file: BinaryIO, size: int, path: Path) -> tuple[int, int]:
    """Rows and width, from the head of .npy content; leaves the stream where the numbers begin."""
    shape, _, dtype = _header(file, path)
    if dtype.kind != "f" or len(shape) not in (1, 2) or shape[-1] < 1 or math.prod(shape) * dtype.itemsize > size:
        raise DataError(f"{path} holds {dtype} {shape}; expected floats (rows, width), as many as the file has.")
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _header(file: BinaryIO, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise DataError(f"{path} holds something else than numbers; expected floats (rows, width).")
    return npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)


def _array(file: BinaryIO, size: int, path: Path) -> NDArray[np.float32]:
    rows, width = _head(file, size, path)
    file.seek(0)
    found: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return found.reshape(rows, width).astype(np.float32, copy=False)


def _tensor(path: Path) -> NDArray[np.float32]:
    import torch

    with zipfile.ZipFile(path) as archive:  # torch would unpack what is compressed, whatever its size
        if sum(info.file_size for info in archive.infolist()) > path.stat().st_size:
            raise DataError(f"{path} claims more than it holds; it is damaged: download it again.")
    found = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(found, dict):
        found = found[_chosen(path, found)]
    if not isinstance(found, torch.Tensor) or not found.is_floating_point() or found.dim() not in (1, 2):
        kind = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise DataError(f"{path} holds {kind}; expected a tensor of floats, (rows, width).")
    if found.numel() * found.element_size() > path.stat().st_size:
        raise DataError(f"{path} claims more than it holds; it is damaged: download it again.")
    array: NDArray[np.float32] = found.detach().float().numpy()
    return array.reshape(1, -1) if array.ndim == 1 else array


def _chosen(path: Path, names: AnyCollection[str]) -> str:
    found = [name for name in _NAMES if name in names] or [*names]
    if len(found) != 1:
        raise DataError(f"{path} holds {', '.join(map(repr, names)) or 'nothing'}; expected one array, {_NAMES[0]!r}.")
    return found[0]
