"""Fixtures that several rooms share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from prvr.data.synth import SIZES, write_world

GOLDEN = Path(__file__).parent / "golden"
# A model and a schedule small enough to train in a second.
TINY = """
method = "dreamprvr"
batch_size = 10
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 16
blocks = 2
registers = 2
frames = 24
diffusion_steps = 3
hard_negative_epoch = 1
[backbone_stage]
epochs = 2
learning_rate = 1e-3
[trace_stage]
epochs = 4
frozen_epochs = 1
warmup_epochs = 1
fusion_start = 1
fusion_ramp = 2
snapshots = 2
"""
_KINDS = {"rough": "<f4", "float32": "<f4", "float64": "<f8", "int64": "<i8"}


@dataclass(frozen=True)
class Golden:
    """Numbers that a faithful implementation gives (see golden/trim.py)."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def weights(self) -> dict[str, Tensor]:
        return {k.removeprefix("weights:"): t for k, t in self.tensors.items() if k.startswith("weights:")}

    def tolerance(self, name: str) -> float:
        given = self.config.get("tolerance", {"default": 1e-4})
        return float(given.get(name, given["default"]))

    def check(self, name: str, value: Tensor) -> None:
        expected = self.tensors[name]
        worst = float((value.detach() - expected).abs().max())
        assert worst <= self.tolerance(name), f"{name} differs by {worst:.2e}"


def _read(name: str) -> Golden:
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        about = json.loads(str(file["index"]))
        flat = {
            kind: np.ascontiguousarray(file[kind].T).reshape(-1).view(t) for kind, t in _KINDS.items() if kind in file
        }
    used = dict.fromkeys(flat, 0)
    tensors = {}
    for key, kind, shape in about["tensors"]:
        size = int(np.prod(shape))
        tensors[key] = torch.from_numpy(flat[kind][used[kind] : used[kind] + size].reshape(shape).copy())
        used[kind] += size
    return Golden(about["config"], tensors)


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """``golden("trace")``: a method's fixture."""
    known: dict[str, Golden] = {}

    def get(name: str) -> Golden:
        if name not in known:
            known[name] = _read(name)
        return known[name]

    return get


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_world(root, SIZES["tiny"], progress=False)
    return root


@pytest.fixture(scope="session")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preset") / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path
