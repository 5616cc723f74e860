"""Films and the library that one machine makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.cluster.made import made_library
from tests.cluster.nodes import Nodes

RATE = 2.0


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films, and a file that is not a video; do not change them."""
    world = render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])
    (world.folder / "videos" / "broken.mp4").write_text("no video")
    return world


@pytest.fixture(scope="session")
def whole(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """What one machine makes of them, without interruption; do not change it."""
    lib = Library.create(tmp_path_factory.mktemp("library") / "whole", rate=RATE)
    report = lib.add([films.folder], tags=["rendered"])
    assert len(report.added) == len(films.videos)
    return lib


@pytest.fixture(scope="session")
def made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of random vectors with two tracks; do not change it. ``open_made_library`` opens it."""
    folder = tmp_path_factory.mktemp("made") / "library"
    made_library(folder)
    return folder


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.create(tmp_path / "library", rate=RATE)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    import ray

    made = Nodes(3)
    yield made
    ray.shutdown()
    made.cluster.shutdown()
