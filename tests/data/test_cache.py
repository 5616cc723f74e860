"""A cache entry is complete or absent, whatever happens while it is built."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from prvr.data import DataError
from prvr.data.cache import cache_home, cached_folder, fingerprint


def write(folder: Path) -> None:
    (folder / "table").write_text("done")


def test_a_cache_is_built_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        write(folder)

    first, second = (cached_folder(tmp_path, "x", "1", build) for _ in range(2))
    assert first == second
    assert len(built) == 1
    assert (first / "table").read_text() == "done"


def test_a_new_version_replaces_the_old_one(tmp_path: Path) -> None:
    old = cached_folder(tmp_path, "x", "1", write)
    other = cached_folder(tmp_path, "y", "1", write)
    new = cached_folder(tmp_path, "x", "2", write)
    assert new.is_dir()
    assert other.is_dir()
    assert not old.exists()


def test_what_fails_or_is_killed_half_way_is_never_read(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write(folder)
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        cached_folder(tmp_path, "x", "1", fail)
    left = tmp_path / ".x.building-killed"  # what a killed builder leaves
    left.mkdir()
    assert (cached_folder(tmp_path, "x", "1", write) / "table").is_file()
    assert not left.exists()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"No space left on device\). Free some space"):
        cached_folder(tmp_path, "x", "1", full)


def _build_slowly(folder: Path) -> None:
    for number in range(200):
        (folder / str(number)).write_text("x" * 1000)


def _race(home: Path) -> int:
    return len(list(cached_folder(home, "x", "1", _build_slowly).iterdir()))


def test_processes_that_build_at_once_all_get_a_whole_one(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map(_race, [tmp_path] * 4)
        pool.close()  # one that sleeps may miss a signal, for which an earlier test has set a handler
        pool.join()
    assert found == [200] * 4


def test_the_fingerprint_follows_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("one")
    first = fingerprint([path])
    assert fingerprint([path]) == first
    os.utime(path, (1, 1))
    assert fingerprint([path]) != first


def test_the_cache_is_beside_the_data_or_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "charades"
    data.mkdir()
    assert cache_home(data) == data / ".prvr-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cache_home(data).parent == tmp_path / "cache" / "prvr"
    assert cache_home(data, tmp_path / "mine").parent == tmp_path / "mine"
