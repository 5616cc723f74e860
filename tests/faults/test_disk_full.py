"""A full disk, and a limit on the size of files: refused in a sentence, nothing torn, and it goes on with more room."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.training import Run
from prvr.worlds import RenderedWorld
from tests.faults.conftest import RATE, write_bigfile
from tests.faults.helpers import disk, finish, refusal, remount, start
from tests.library.store.test_faults import same


def test_adding_to_a_library_under_a_limit(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    words = ("library", "add", films.folder, "--library", lib.folder)
    said = refusal(start(*words, limits={resource.RLIMIT_FSIZE: 60_000}))
    assert str(lib.folder) in said
    assert lib.verify().ok
    finish(start(*words))
    same(lib, whole)


@pytest.mark.slow
def test_adding_to_a_library_on_a_full_disk(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    with disk(tmp_path / "disk", 200_000) as place:
        lib = Library.create(place / "library", encoder="plain", rate=RATE)
        words = ("library", "add", films.folder, "--library", lib.folder)
        assert "free some space" in refusal(start(*words))
        assert lib.verify().ok
        assert len(lib.videos()) < len(films.videos)
        remount(place, "size=64m")
        finish(start(*words))
        same(lib, whole)


@pytest.mark.slow
def test_training_on_a_full_disk(preset: Path, world: Path, tmp_path: Path) -> None:
    with disk(tmp_path / "disk", 256 << 10) as place:
        words = ("train", preset, "--data", world, "--out", place / "run", "--resume", "--checkpoint-seconds", "0")
        refusal(start(*words))
        remount(place, "size=64m")
        finish(start(*words))
        assert Run(place / "run").has_weights("average")


@pytest.mark.slow
def test_converting_under_a_limit_that_hdf5_itself_meets(tmp_path: Path) -> None:
    """HDF5 writes a directory of all datasets when it closes the file, and crashes if that does not fit."""
    folder = write_bigfile(tmp_path / "features", videos=2000, rows=1, width=1)
    for most in (30_000, 300_000):
        said = refusal(start("data", "convert", folder, limits={resource.RLIMIT_FSIZE: most}))
        assert "continues where it stopped" in said
        assert not list(folder.glob(".*"))
    finish(start("data", "convert", folder))
    assert (folder / "feature.hdf5").is_file()


@pytest.mark.slow
def test_converting_on_a_full_disk(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", 64 << 20) as place:
        folder = write_bigfile(place / "features")
        used = sum(path.stat().st_size for path in folder.iterdir())
        remount(place, f"size={used * 3 // 2}")
        assert "continues where it stopped" in refusal(start("data", "convert", folder))
        assert not (folder / "feature.hdf5").exists()
        remount(place, "size=64m")
        finish(start("data", "convert", folder))
        assert (folder / "feature.hdf5").is_file()
