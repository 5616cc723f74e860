"""A trained run that was evaluated, and a hub to push it to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from prvr.evaluation import evaluate_run
from prvr.terminal import Console
from prvr.training import Run, Trainer, join_processes, load_preset
from tests.sharing.hub_server import TOKEN, StandInHub


@pytest.fixture(scope="session")
def trained(preset: Path, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = load_preset(str(preset))
    run = Run(tmp_path_factory.mktemp("trained") / "run")
    run.create(config, world, fingerprint="f" * 64, command=f"prvr train --data {world}")
    with join_processes("cpu") as group:
        Trainer(config, world, run, group, Console(quiet=True), loggers=()).train()
    evaluate_run(run)
    return run


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """A copy that a test may change."""
    shutil.copytree(trained.path, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """A hub that the real client in this process talks to, with the right token; runs are loaded below ``tmp_path``."""
    constants = pytest.importorskip("huggingface_hub").constants
    server = StandInHub()
    changed = {"ENDPOINT": server.address, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": True}
    for name, value in changed.items():  # what the variables of the same names do in a new process
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    yield server
    server.stop()
