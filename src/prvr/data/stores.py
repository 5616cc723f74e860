"""Frame and word features on disk, behind one interface.

A store is a mapping from an id to an array (rows, width) of float32. Three formats are read: an HDF5 file with one
dataset per id, the BigFile of ``prvr.data.bigfile``, and a folder with one array file per id (``folder_store``). What a
store returns has been checked: right width, at least one row, no NaN or infinity. Anything else is a ``DataError`` that
names the file and the id.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from prvr.data.array_files import ARRAY_ENDINGS, MOST_PACKED, SMALL
from prvr.data.bigfile import BIGFILE_NAMES, BigFile
from prvr.data.errors import DataError
from prvr.data.folder_store import ArrayFolderStore, JoinedStore, array_files
from prvr.data.store_base import Array, Closing, FeatureStore, require_finite


def open_feature_store(path: Path) -> FeatureStore:
    """Open an HDF5 file, or a folder: its ``feature.hdf5`` if there is one, else its BigFile or its array files.

    ``FOLDER/A+B``, where there is nothing of that name, is ``FOLDER/A`` and ``FOLDER/B`` side by side.
    """
    parts = side_by_side(path)
    if len(parts) > 1:
        return JoinedStore(path, [open_feature_store(part) for part in parts])
    if path.is_dir():
        converted = path / "feature.hdf5"
        if converted.is_file():
            return H5Store(converted)
        return (
            ArrayFolderStore(path) if not (path / "feature.bin").is_file() and array_files(path) else BigFileStore(path)
        )
    if not path.exists():
        raise DataError(f"{path} is missing; expected an HDF5 file, or a folder with feature.bin or array files.")
    if path.suffix in ARRAY_ENDINGS:
        raise DataError(f"{path} is one video's features; give the folder that holds them all.")
    return H5Store(path)


def side_by_side(path: Path) -> list[Path]:
    """The places whose features a path joins; the path itself where it is one."""
    return [path] if path.exists() or "+" not in path.name else [path.with_name(name) for name in path.name.split("+")]


def stored_name(store: FeatureStore, name: str) -> str | None:
    """The id under which a store keeps a video or a query, or None.

    Some files of ActivityNet leave out the ``v_`` of its ids. Files of moment retrieval name a query ``qid`` and a
    number, which is the end of our id there.
    """
    number = name.rpartition("#")[2]
    names = (name, name.removeprefix("v_"), number if number.startswith("qid") else name)
    return next((each for each in names if each in store), None)


def store_files(path: Path) -> tuple[Path, ...]:
    """The files that ``open_feature_store(path)`` reads; their sizes and times show whether a cache is stale."""
    parts = side_by_side(path)
    if len(parts) > 1:
        return tuple(file for part in parts for file in store_files(part))
    if path.is_dir():
        converted, items = path / "feature.hdf5", array_files(path)
        if converted.is_file():
            return (converted,)
        whole = (path / "feature.bin").is_file() or not items
        return tuple(path / name for name in BIGFILE_NAMES) if whole else tuple(items.values())
    return (path,)


class H5Store(Closing):
    """One dataset (rows, width) per id, at the top of an HDF5 file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = h5py.File(path, "r")
            self._ids = tuple(self._file)
            self._bytes = path.stat().st_size
        except (OSError, RuntimeError) as problem:
            raise DataError(
                f"{path} cannot be opened as HDF5: it is cut short or another kind of file "
                f"({problem}). Compare its size with the download, or download it again."
            ) from problem
        if not self._ids:
            self.close()
            raise DataError(f"{path} holds no datasets; expected one (rows, width) dataset per id.")
        self._members = frozenset(self._ids)
        try:
            self.width = int(self._dataset(self._ids[0]).shape[1])
        except DataError:
            self.close()
            raise

    @property
    def ids(self) -> tuple[str, ...]:
        return self._ids

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def length(self, name: str) -> int:
        return int(self._dataset(name).shape[0])

    def read(self, name: str) -> Array:
        dataset = self._dataset(name)
        if dataset.shape[1] != self.width:
            raise DataError(
                f"{self.path}: '{name}' is {dataset.shape[1]} wide, but '{self._ids[0]}' is {self.width}; "
                "all ids of one file must come from the same feature."
            )
        try:
            # Reading into place converts on the way and is faster than dataset[...] for many small datasets.
            features = np.empty(dataset.shape, dtype=np.float32)
            dataset.read_direct(features)
        except (OSError, RuntimeError) as problem:
            raise DataError(f"{self.path}: '{name}' cannot be read ({problem}); download the file again.") from problem
        return require_finite(features, self.path, name)

    def close(self) -> None:
        self._file.close()

    def _dataset(self, name: str) -> Any:
        if name not in self._members:  # also a path through groups of the file
            raise DataError(f"{self.path} has no entry '{name}'.")
        try:
            if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
                raise DataError(f"{self.path}: '{name}' is a link to another place or file; expected a dataset itself.")
            dataset = self._file[name]
        except (KeyError, OSError, RuntimeError, ValueError) as problem:
            raise DataError(f"{self.path}: '{name}' cannot be read ({problem}); download the file again.") from problem
        try:
            kind = str(dataset.dtype) if isinstance(dataset, h5py.Dataset) else "a group"
        except (TypeError, ValueError, RuntimeError) as problem:  # a type that numpy does not have
            raise DataError(
                f"{self.path}: '{name}' has an unknown type ({problem}); download the file again."
            ) from problem
        if not isinstance(dataset, h5py.Dataset) or len(dataset.shape or ()) != 2 or dataset.dtype.kind != "f":
            found = f"{kind} {dataset.shape}" if isinstance(dataset, h5py.Dataset) else kind
            raise DataError(f"{self.path}: '{name}' is {found}; expected a dataset of floats, (rows, width).")
        self._require_stored(dataset, name)
        return dataset

    def _require_stored(self, dataset: Any, name: str) -> None:
        """Refuse a dataset whose numbers are in other files, or that claims many more than the file holds."""
        if dataset.external or dataset.is_virtual:
            raise DataError(f"{self.path}: '{name}' keeps its numbers in other files; expected them in this one.")
        claimed = max(dataset.size, math.prod(dataset.chunks or (0,))) * dataset.dtype.itemsize
        stored = min(dataset.id.get_storage_size(), self._bytes)
        if dataset.id.get_create_plist().get_nfilters():  # compressed
            stored = max(stored * MOST_PACKED, SMALL)
        if dataset.size and claimed > stored:
            raise DataError(
                f"{self.path}: '{name}' claims {claimed:,} bytes {dataset.shape}, but the file does not hold them; "
                "it is damaged: download it again."
            )


class BigFileStore(Closing):
    """A BigFile folder, its rows gathered video by video from the memory-mapped ``feature.bin``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._big = BigFile.open(folder)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._big.rows)

    @property
    def width(self) -> int:
        return self._big.width

    def __contains__(self, name: object) -> bool:
        return name in self._big.rows

    def length(self, name: str) -> int:
        return len(self._rows(name))

    def read(self, name: str) -> Array:
        return require_finite(self._big.gather(self._rows(name)), self.folder / "feature.bin", name)

    def close(self) -> None:
        self._big.close()

    def _rows(self, name: str) -> NDArray[np.int64]:
        if name not in self._big.rows:
            raise DataError(f"{self.folder / 'video2frames.txt'} has no entry '{name}'.")
        return self._big.rows[name]
