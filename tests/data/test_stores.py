"""One set of statements, run over all formats."""

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


@pytest.fixture(params=["hdf5", "bigfile", ".npy", ".npz", ".pt"])
def make(files: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "hdf5":
        return lambda features: open_feature_store(files.h5(tmp_path / "feature.hdf5", features))
    if request.param.startswith("."):
        return lambda features: open_feature_store(files.folder(tmp_path / "each", features, request.param))
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


def _huge(file: h5py.File) -> None:
    file.create_dataset("x", (1 << 40, 8), np.float32, chunks=(64, 8))  # no chunk is written


def _packed(file: h5py.File) -> None:
    file.create_dataset("x", data=np.zeros((1 << 20, 16), np.float32), compression="gzip", compression_opts=9)


def _wide_chunk(file: h5py.File) -> None:
    file.create_dataset("x", (1, 1), np.float32, chunks=(1 << 14, 1 << 14), maxshape=(None, None), compression="gzip")


def _external(file: h5py.File) -> None:
    file.create_dataset("x", (4, 4), np.float32, external=[("/proc/self/environ", 0, 64)])


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4, 4), np.float32)
    layout[:] = h5py.VirtualSource("other.hdf5", "y", (4, 4))
    file.create_virtual_dataset("x", layout)


def _links(kind: object) -> Callable[[h5py.File], None]:
    def make(file: h5py.File) -> None:
        file.create_group("inner")["y"] = np.ones((2, 2), np.float32)
        file["x"] = kind

    return make


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_huge, "claims .* bytes"),
        (_packed, "claims .* bytes"),
        (_wide_chunk, "claims .* bytes"),
        (_external, "in other files"),
        (_virtual, "in other files"),
        (_links(h5py.SoftLink("/inner/y")), "is a link"),
        (_links(h5py.ExternalLink("other.hdf5", "y")), "is a link"),
        (lambda file: file.create_dataset("x", data=np.ones((2, 2), np.complex64)), "is complex64"),
        (lambda file: file.create_dataset("x", (2, 2), h5py.string_dtype()), "is object"),
    ],
    ids=["huge", "packed", "chunk", "external", "virtual", "soft link", "external link", "complex", "object"],
)
def test_a_small_file_takes_little_memory_and_leads_nowhere(
    tmp_path: Path, write: Callable[[h5py.File], None], message: str
) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["a"] = np.ones((2, 8), np.float32)
        write(file)
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["y"] = np.ones((4, 4), np.float32)
    with open_feature_store(tmp_path / "x.hdf5") as store:
        for ask in (store.read, store.length):
            with pytest.raises(DataError, match=message):
                ask("x")
        with pytest.raises(DataError, match="no entry"):
            store.read("inner/y")


def test_compressed_features_are_read(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random((500, 64), np.float32)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.create_dataset("x", data=numbers, compression="gzip")
    with open_feature_store(tmp_path / "x.hdf5") as store:
        np.testing.assert_array_equal(store.read("x"), numbers)
