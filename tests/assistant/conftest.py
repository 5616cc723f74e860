"""A library of small films for an assistant."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.library import Library
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world

pytest.importorskip("mcp", reason='assistants need mcp: pip install "prvr[mcp]"')


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="session")
def library(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    folder = tmp_path_factory.mktemp("library") / "library.prvr"
    lib = Library.create(folder, encoder="plain")
    lib.add([films.folder], tags=["drawn"])
    broken = films.folder / "broken.mp4"
    broken.write_text("no video")
    lib.add([broken])
    return folder
