"""A folder of small films, and a library of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.media.render import SIZES, RenderedWorld, render_world

RATE = 2.0


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films; read only."""
    return render_world(tmp_path_factory.mktemp("rendered") / "films", SIZES["tiny"])


@pytest.fixture(scope="session")
def whole(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of all films, made without interruption; read only."""
    lib = Library.create(tmp_path_factory.mktemp("library") / "whole", rate=RATE)
    report = lib.add([films.folder])
    assert len(report.added) == len(films.videos)
    return lib


@pytest.fixture
def own(films: RenderedWorld, tmp_path: Path) -> Path:
    """A folder of six films to do things to."""
    folder = tmp_path / "own"
    folder.mkdir()
    for path in sorted(films.videos.values())[:6]:
        shutil.copy2(path, folder)
    return folder


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.create(tmp_path / "library", rate=RATE)
