"""A run that several files of tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.cli import main


@pytest.fixture(scope="session")
def trained(world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with TRACE on the tiny world. Copy it before writing into it."""
    out = tmp_path_factory.mktemp("trained") / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out), "--checkpoint-seconds", "0"]
    assert main(words) == 0
    return out
