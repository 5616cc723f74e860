"""A disk that became read-only: what is there can be looked at, what would change it is refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import Library
from prvr.worlds import RenderedWorld
from tests.cli.test_commands import fails
from tests.faults.conftest import RATE, write_bigfile
from tests.faults.helpers import disk, files_of, remount


def test_a_library(films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(films.videos.values())
    with disk(tmp_path / "disk", 64 << 20) as place:
        lib = Library.create(place / "library", encoder="plain", rate=RATE)
        lib.add(paths[:2])
        before = files_of(lib.folder)
        remount(place, "ro")
        where = ("--library", lib.folder)
        assert main(["search", "a red square", "--library", str(lib.folder), "--json"]) == 0
        assert main(["library", "verify", "--library", str(lib.folder)]) == 0
        capsys.readouterr()
        for words in (("library", "add", *paths, *where), ("library", "remove", paths[0], *where)):
            assert "can search the library, but not change it" in fails(capsys, *words)
        assert files_of(lib.folder) == before
        remount(place, "rw")
        assert len(lib.add(paths[:3]).added) == 1


def test_a_run_and_a_conversion(preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with disk(tmp_path / "disk", 64 << 20) as place:
        write_bigfile(place / "features")
        remount(place, "ro")
        assert "Read-only" in fails(capsys, "train", preset, "--data", world, "--out", place / "run")
        assert "cannot be written (Read-only" in fails(capsys, "data", "convert", place / "features")
