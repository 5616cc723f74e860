"""What the faults are done to: films, a library of them, a BigFile, a small training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prvr.data.writer import feature_writer
from prvr.library import Library
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world

RATE = 2.0


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films; read only."""
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="session")
def whole(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of all films, made without interruption; read only."""
    lib = Library.create(tmp_path_factory.mktemp("library") / "whole", encoder="plain", rate=RATE)
    lib.add([films.folder])
    return lib


def write_bigfile(folder: Path, videos: int = 300, rows: int = 20, width: int = 64) -> Path:
    rng = np.random.default_rng(0)
    with feature_writer("bigfile", folder, width) as out:
        for number in range(videos):
            out.add(f"v{number}", rng.standard_normal((rows + number % 5, width), dtype=np.float32))
    return folder
