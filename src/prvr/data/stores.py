"""Frame and word features on disk, behind one interface.

A store is a mapping from an id to an array (rows, width) of float32. Two formats are read: an HDF5 file with one
dataset per id, and the BigFile of ``prvr.data.bigfile``. What a store returns has been checked: right width, at
least one row, no NaN or infinity. Anything else is a ``DataError`` that names the file and the id.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from prvr.data.bigfile import BIGFILE_NAMES, BigFile
from prvr.data.errors import DataError

Array = NDArray[np.float32]

_MOST_PACKED = 64  # times that a compressed dataset may grow; features of real numbers grow less than ten times
_SMALL = 1 << 24  # bytes that any compressed dataset may have


class FeatureStore(Protocol):
    """Read-only features by id; close it, or use it as a context."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def width(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def length(self, name: str) -> int:
        """Rows of one id, without reading them."""
        ...

    def read(self, name: str) -> Array:
        """Features of one id, (n, width)."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> FeatureStore: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_feature_store(path: Path) -> FeatureStore:
    """Open an HDF5 file, or a folder: its ``feature.hdf5`` if there is one, else its BigFile."""
    if path.is_dir():
        converted = path / "feature.hdf5"
        return H5Store(converted) if converted.is_file() else BigFileStore(path)
    if not path.exists():
        raise DataError(f"{path} is missing; expected an HDF5 file or a folder with feature.bin.")
    return H5Store(path)


def stored_name(store: FeatureStore, name: str) -> str | None:
    """The id under which a store keeps a video, or None. Some files of ActivityNet leave out the ``v_`` of its ids."""
    short = name.removeprefix("v_")
    return name if name in store else short if short in store else None


def store_files(path: Path) -> tuple[Path, ...]:
    """The files that ``open_feature_store(path)`` reads; their sizes and times show whether a cache is stale."""
    if path.is_dir():
        converted = path / "feature.hdf5"
        return (converted,) if converted.is_file() else tuple(path / name for name in BIGFILE_NAMES)
    return (path,)


class _Closing:
    """The context-manager half of a store."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class H5Store(_Closing):
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
            stored = max(stored * _MOST_PACKED, _SMALL)
        if dataset.size and claimed > stored:
            raise DataError(
                f"{self.path}: '{name}' claims {claimed:,} bytes {dataset.shape}, but the file does not hold them; "
                "it is damaged: download it again."
            )


class BigFileStore(_Closing):
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


def require_finite(features: Array, path: Path, name: str) -> Array:
    """Return ``features`` (n, D) unchanged; refuse an empty array, NaN and infinity."""
    if len(features) == 0:
        raise DataError(f"{path}: '{name}' has no rows; remove it from the captions, or extract its features again.")
    # One sum finds any NaN or infinity. Only then is every number checked.
    with np.errstate(over="ignore", invalid="ignore"):
        total = features.sum()
    if not np.isfinite(total) and not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise DataError(f"{path}: '{name}' holds NaN or infinity in row {row}; extract its features again.")
    return features
