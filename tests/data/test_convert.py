"""A BigFile becomes an HDF5 file, also when the conversion is killed on the way."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from prvr.data import DataError, convert_features, open_feature_store
from prvr.data import convert as convert_module
from prvr.data.stores import BigFileStore


def convert_slowly(folder: Path) -> None:
    """Convert with a note in the journal after every video, slowly enough to be killed on the way."""
    convert_module.GROUP_BYTES = 1
    read = BigFileStore.read

    def slowly(self: BigFileStore, name: str) -> NDArray[np.float32]:
        time.sleep(0.02)
        return read(self, name)

    BigFileStore.read = slowly  # type: ignore[method-assign]  # in this process alone
    convert_features(folder, progress=False)


def many(videos: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {f"v{i}": rng.standard_normal((3 + i % 7, 8), dtype=np.float32) for i in range(videos)}


def check_result(path: Path, features: dict[str, NDArray[np.float32]]) -> None:
    assert sorted(p.name for p in path.parent.iterdir() if p.name.startswith("feature.hdf5")) == ["feature.hdf5"]
    with open_feature_store(path) as store:
        assert set(store.ids) == set(features)
        for name, rows in features.items():
            np.testing.assert_array_equal(store.read(name), rows)


def test_each_video_becomes_a_dataset_in_time_order(
    files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]
) -> None:
    check_result(convert_features(files.bigfile(tmp_path, features)), features)


def test_an_existing_file_is_kept_unless_forced(
    files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]
) -> None:
    folder = files.bigfile(tmp_path, features)
    (folder / "feature.hdf5").write_text("precious")
    with pytest.raises(DataError, match="--force"):
        convert_features(folder)
    assert (folder / "feature.hdf5").read_text() == "precious"
    check_result(convert_features(folder, force=True), features)


@pytest.mark.parametrize("at", [1, 20])
def test_a_killed_conversion_goes_on_where_it_stopped(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    features = many(60)
    folder = files.bigfile(tmp_path, features)
    journal = folder / "feature.hdf5.journal"
    process = multiprocessing.get_context("fork").Process(target=convert_slowly, args=(folder,))
    process.start()
    deadline = time.monotonic() + 60
    while not journal.exists() or json.loads(journal.read_text())["done"] < at:
        assert process.is_alive(), "the conversion ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.join()
    done = json.loads(journal.read_text())["done"]
    assert at <= done < 60
    assert not (folder / "feature.hdf5").exists()
    with h5py.File(folder / "feature.hdf5.part", "r") as part:  # readable, whenever the kill came
        np.testing.assert_array_equal(part["v0"][...], features["v0"])
    read: list[str] = []
    original = BigFileStore.read

    def counting(self: BigFileStore, name: str) -> NDArray[np.float32]:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(BigFileStore, "read", counting)
    path = convert_features(folder)
    assert read[: 60 - done] == list(features)[done:]  # what follows compares a sample with the source
    check_result(path, features)


def test_what_a_kill_left_is_removed(files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]) -> None:
    folder = files.bigfile(tmp_path, features)
    left = [folder / f".feature.hdf5.{name}.0123456789abcdef.part" for name in ("part", "journal")]
    for path in left:
        path.write_bytes(bytes(99))
    check_result(convert_features(folder, progress=False), features)
    assert not any(path.exists() for path in left)


def test_a_conversion_of_other_files_starts_again(
    files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]
) -> None:
    folder = files.bigfile(tmp_path, many(9))
    (folder / "feature.hdf5.part").write_text("of yesterday")
    (folder / "feature.hdf5.journal").write_text('{"source": "of yesterday", "done": 4}')
    check_result(convert_features(folder), many(9))
    (folder / "feature.hdf5").rename(folder / "feature.hdf5.part")
    (folder / "feature.hdf5.journal").write_text("torn")
    check_result(convert_features(folder), many(9))


def test_a_result_that_does_not_match_is_not_put_in_place(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files.bigfile(tmp_path, many(5))
    original, read = BigFileStore.read, set[str]()

    def other_numbers_at_first(self: BigFileStore, name: str) -> NDArray[np.float32]:
        rows = original(self, name) + (name not in read)
        read.add(name)
        return rows

    monkeypatch.setattr(BigFileStore, "read", other_numbers_at_first)
    with pytest.raises(DataError, match="does not match its source"):
        convert_features(folder)
    assert not (folder / "feature.hdf5").exists()


def test_bad_frames_stop_the_conversion(files: Any, tmp_path: Path) -> None:
    features = many(5)
    features["v3"][0, 0] = np.nan
    with pytest.raises(DataError, match="'v3' holds NaN"):
        convert_features(files.bigfile(tmp_path, features))


def test_one_file_per_video_becomes_one_file(files: Any, tmp_path: Path) -> None:
    features = many(5)
    check_result(convert_features(files.folder(tmp_path / "clip_features", features)), features)
