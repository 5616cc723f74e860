"""One set of statements, run over both formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from prvr.data import DataError, FeatureStore, open_feature_store

Make = Callable[[Any], FeatureStore]


@pytest.fixture(params=["hdf5", "bigfile"])
def make(files: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "hdf5":
        return lambda features: open_feature_store(files.h5(tmp_path / "feature.hdf5", features))
    return lambda features: open_feature_store(files.bigfile(tmp_path / "big", features))


def test_a_store_returns_what_was_written(make: Make, features: dict[str, NDArray[np.float32]]) -> None:
    with make(features) as store:
        assert set(store.ids) == set(features)
        assert store.width == 6
        for name, rows in features.items():
            read = store.read(name)
            assert read.dtype == np.float32
            assert store.length(name) == len(rows)
            np.testing.assert_array_equal(read, rows)


def test_an_unknown_id_is_named(make: Make, features: dict[str, NDArray[np.float32]]) -> None:
    with make(features) as store:
        assert "nobody" not in store
        for ask in (store.read, store.length):
            with pytest.raises(DataError, match="no entry 'nobody'"):
                ask("nobody")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_found(make: Make, features: dict[str, NDArray[np.float32]], bad: float) -> None:
    features["b"][7, 3] = bad
    with make(features) as store:
        store.read("a")
        with pytest.raises(DataError, match="'b' holds NaN or infinity in row 7"):
            store.read("b")


def test_half_and_double_precision_are_read_as_single(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        file["half"] = np.ones((2, 3), dtype=np.float16)
        file["double"] = np.ones((2, 3), dtype=np.float64)
    with open_feature_store(path) as store:
        assert store.read("half").dtype == store.read("double").dtype == np.float32


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (np.zeros((3, 5), dtype=np.float32), "5 wide, but 'a' is 6"),
        (np.zeros((0, 6), dtype=np.float32), "no rows"),
        (np.zeros(6, dtype=np.float32), r"float32 \(6,\); expected a dataset of floats"),
        (np.zeros((2, 6), dtype=np.int32), "expected a dataset of floats"),
    ],
)
def test_an_hdf5_dataset_of_another_shape_is_refused(
    files: Any, tmp_path: Path, odd: NDArray[np.float32], says: str
) -> None:
    path = files.h5(tmp_path / "x.hdf5", {"a": np.zeros((2, 6), dtype=np.float32), "odd": odd})
    with open_feature_store(path) as store, pytest.raises(DataError, match=says):
        store.read("odd")


def test_a_truncated_hdf5_file_is_refused(files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]) -> None:
    path = files.h5(tmp_path / "x.hdf5", features)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"x\.hdf5 cannot be opened as HDF5"):
        open_feature_store(path)


def test_what_is_no_hdf5_or_empty_or_absent_is_refused(files: Any, tmp_path: Path) -> None:
    (tmp_path / "text.hdf5").write_text("hello")
    files.h5(tmp_path / "none.hdf5", {})
    for name, says in (("text.hdf5", "cannot be opened"), ("none.hdf5", "no datasets"), ("absent.hdf5", "is missing")):
        with pytest.raises(DataError, match=says):
            open_feature_store(tmp_path / name)


def test_a_folder_opens_its_hdf5_file_before_its_bigfile(
    files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]
) -> None:
    folder = files.bigfile(tmp_path / "big", features)
    files.h5(folder / "feature.hdf5", {"only": features["a"]})
    with open_feature_store(folder) as store:
        assert store.ids == ("only",)
