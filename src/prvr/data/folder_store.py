"""Features in one file per id, and features of several places side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prvr.data.array_files import ARRAY_ENDINGS, array_shape, read_array
from prvr.data.errors import DataError
from prvr.data.store_base import Array, Closing, FeatureStore, require_finite

_APART = 0.1  # share of a video by which the rows of two features may differ: both cover it at the same rate


def array_files(folder: Path) -> dict[str, Path]:
    """The array files of a folder by id, in order. An id with two files is refused."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in ARRAY_ENDINGS and not path.name.startswith("."):
            if path.stem in found:
                raise DataError(f"{folder} holds both {found[path.stem].name} and {path.name}; delete one of them.")
            found[path.stem] = path
    return found


def has_array_files(folder: Path) -> bool:
    """Whether a folder holds features in one file per id."""
    return any(path.suffix in ARRAY_ENDINGS and not path.name.startswith(".") for path in folder.iterdir())


class ArrayFolderStore(Closing):
    """A folder with one .npy, .npz or .pt file per id, named after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = array_files(folder)
        if not self._files:
            raise DataError(f"{folder} holds no {', '.join(ARRAY_ENDINGS)} files; expected one per id.")
        self.width = array_shape(next(iter(self._files.values())))[1]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def length(self, name: str) -> int:
        return array_shape(self._file(name))[0]

    def read(self, name: str) -> Array:
        path = self._file(name)
        features = read_array(path)
        if features.shape[1] != self.width:
            first = next(iter(self._files.values()))
            raise DataError(
                f"{path} is {features.shape[1]} wide, but {first.name} is {self.width}; all files of one folder must "
                "come from the same feature."
            )
        return require_finite(features, path, name)

    def close(self) -> None:
        pass

    def _file(self, name: str) -> Path:
        if name not in self._files:
            raise DataError(f"{self.folder} has no entry '{name}'.")
        return self._files[name]


class JoinedStore(Closing):
    """Features of several stores side by side, for the ids that all of them have.

    Rows of each part get unit length first, so that no part outweighs the others by its scale alone. Parts may differ
    by some rows at the end of a video, which are left out.
    """

    def __init__(self, path: Path, parts: Sequence[FeatureStore]) -> None:
        self.path, self._parts = path, parts
        self.width = sum(part.width for part in parts)
        self._ids = tuple(name for name in parts[0].ids if all(name in part for part in parts[1:]))

    @property
    def ids(self) -> tuple[str, ...]:
        return self._ids

    def __contains__(self, name: object) -> bool:
        return all(name in part for part in self._parts)

    def length(self, name: str) -> int:
        lengths = [part.length(name) for part in self._parts]
        if max(lengths) - min(lengths) > max(2, _APART * max(lengths)):
            raise DataError(
                f"{self.path}: '{name}' has {' and '.join(map(str, lengths))} rows; features side by side must have "
                "been made at the same rate."
            )
        return min(lengths)

    def read(self, name: str) -> Array:
        rows = self.length(name)
        parts = [part.read(name)[:rows] for part in self._parts]
        lengths = [np.maximum(np.linalg.norm(part, axis=1, keepdims=True), np.float32(1e-12)) for part in parts]
        return np.concatenate([part / length for part, length in zip(parts, lengths, strict=True)], axis=1)

    def close(self) -> None:
        for part in self._parts:
            part.close()
