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

GOLDEN = Path(__file__).parent / "golden"
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
