"""Small files of our own making, in the formats of the real datasets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

Features = Mapping[str, NDArray[np.float32]]


class Files:
    """Writers of the feature formats."""

    @staticmethod
    def h5(path: Path, features: Features) -> Path:
        with h5py.File(path, "w") as file:
            for name, rows in features.items():
                file.create_dataset(name, data=rows)
        return path

    @staticmethod
    def bigfile(folder: Path, features: Features) -> Path:
        """A BigFile whose rows are shuffled, as the format allows."""
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"{video}_{frame}" for video, rows in features.items() for frame in range(len(rows))]
        matrix = np.concatenate(list(features.values())).astype("<f4")
        order = np.random.default_rng(0).permutation(len(names))
        (folder / "feature.bin").write_bytes(matrix[order].tobytes())
        (folder / "id.txt").write_text(" ".join(names[row] for row in order), encoding="iso-8859-1")
        (folder / "shape.txt").write_text(f"{len(names)} {matrix.shape[1]}\n")
        lists = {video: [f"{video}_{frame}" for frame in range(len(rows))] for video, rows in features.items()}
        (folder / "video2frames.txt").write_text(repr(lists), encoding="iso-8859-1")
        return folder

    @staticmethod
    def folder(folder: Path, features: Features, ending: str = ".npz", key: str = "features") -> Path:
        """One file per id."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in features.items():
            path = folder / f"{name}{ending}"
            if ending == ".npy":
                np.save(path, rows)
            elif ending == ".npz":
                np.savez(path, **{key: rows})
            else:
                torch.save(torch.from_numpy(rows), path)
        return folder


@pytest.fixture(scope="session")
def files() -> Files:
    return Files()


@pytest.fixture
def features() -> dict[str, NDArray[np.float32]]:
    """Three videos of 5, 40 and 200 frames, six wide."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((n, 6), dtype=np.float32) for name, n in (("a", 5), ("b", 40), ("c", 200))}
