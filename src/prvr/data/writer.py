"""Writes frame features in either of the two formats that ``stores`` reads."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from prvr.data.errors import DataError

Array = NDArray[np.floating[Any]]


class FeatureWriter(Protocol):
    def add(self, video: str, features: Array) -> None:
        """Write one video, (n, width)."""
        ...


@contextlib.contextmanager
def feature_writer(kind: Literal["hdf5", "bigfile"], folder: Path, width: int) -> Iterator[FeatureWriter]:
    """Write videos into ``folder``; the files are complete when the context ends without an error."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "hdf5":
        with h5py.File(folder / "feature.hdf5", "w", libver=("v110", "v110")) as file:
            yield _H5Writer(file)
    else:
        with (folder / "feature.bin").open("wb", buffering=1 << 20) as file:
            big = _BigFileWriter(file)
            yield big
        big.write_lists(folder, width)


def require_space(root: Path, needed: int, what: str) -> None:
    """Refuse before writing: the HDF5 library does not survive a disk that fills up under it."""
    free = shutil.disk_usage(root).free
    if free < needed:
        raise DataError(f"{root} has {free / 2**20:,.0f} MiB free, but {what} needs about {needed / 2**20:,.0f}.")


class _H5Writer:
    def __init__(self, file: h5py.File) -> None:
        self._file = file

    def add(self, video: str, features: Array) -> None:
        self._file.create_dataset(video, data=features)


class _BigFileWriter:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frames: dict[str, list[str]] = {}

    def add(self, video: str, features: Array) -> None:
        self._file.write(np.ascontiguousarray(features, dtype="<f4").data)
        self._frames[video] = [f"{video}_{frame}" for frame in range(len(features))]

    def write_lists(self, folder: Path, width: int) -> None:
        names = [name for frames in self._frames.values() for name in frames]
        (folder / "id.txt").write_text(" ".join(names), encoding="iso-8859-1")
        (folder / "shape.txt").write_text(f"{len(names)} {width}\n", encoding="ascii")
        (folder / "video2frames.txt").write_text(repr(self._frames), encoding="iso-8859-1")
