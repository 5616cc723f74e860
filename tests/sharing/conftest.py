"""A run that was evaluated, and a hub to push it to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from prvr.evaluation import evaluate_run
from prvr.training import Run, TraceModel, WitnessStage, calibrate_run, fit_run_witness, load_preset, load_split
from tests.sharing.hub_server import TOKEN, StandInHub


@pytest.fixture(scope="session")
def trained(preset: Path, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with everything that training leaves, but with weights drawn at random: sharing does not care."""
    config = replace(load_preset(str(preset)), witness_stage=WitnessStage(steps=2, queries=8, negatives=3, pool=5))
    run = Run(tmp_path_factory.mktemp("trained") / "run")
    run.create(config, world, fingerprint="f" * 64, command=f"prvr train --data {world}")
    abouts = {"average": {"epochs": [4, 5]}, "best": {"epoch": 3, "fusion_weight": 0.01}, "backbone": {"epoch": 1}}
    for seed, (name, about) in enumerate(abouts.items()):
        torch.manual_seed(seed)
        run.save_weights(name, TraceModel.from_config(config).state_dict(), **about)
    train, validation = (load_split(config, world, split) for split in ("train", "val"))
    calibrate_run(run, train, validation, torch.device("cpu"))
    fit_run_witness(run, train, validation, torch.device("cpu"))
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
    changed["HUGGINGFACE_CO_URL_TEMPLATE"] = f"{server.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in changed.items():  # what the variables of the same names do in a new process
        monkeypatch.setattr(constants, name, value)
    hasty = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})  # the client waits before it tries again
    for module in ("utils._http", "file_download"):
        monkeypatch.setattr(f"huggingface_hub.{module}.time", hasty)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    yield server
    server.stop()
