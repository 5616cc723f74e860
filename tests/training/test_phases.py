"""What a phase of training runs with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.training import load_preset
from prvr.training import phases as module
from prvr.training.compiling import PAYS_AFTER_STEPS, CompiledParts
from prvr.training.config import ConfigError
from prvr.training.distributed import Processes
from prvr.training.model import TraceModel
from prvr.training.phases import Phases
from prvr.training.schedule import moment
from prvr.training.step import GraphedStep, PlainStep


@pytest.fixture
def parts_of_steps(preset: Path, monkeypatch: pytest.MonkeyPatch) -> list[CompiledParts | None]:
    """Which compiled parts each phase's captured step is given, as if this machine had a GPU."""
    given: list[CompiledParts | None] = []
    monkeypatch.setattr(module, "GraphedStep", lambda plain, videos, config, parts: given.append(parts))
    monkeypatch.setattr(module.optim, "rate_on_device", lambda optimiser, device: None)
    config = load_preset(str(preset))
    model = TraceModel.from_config(config)
    phases = Phases(config, model, Processes(0, 1, torch.device("cuda")))
    for epoch in range(4):  # two of the backbone, one frozen, one joint
        now = moment(epoch, config.backbone_stage.epochs, config.trace_stage)
        phases.step(now, phases.optimiser(now), PAYS_AFTER_STEPS)
    return given


def test_a_frozen_backbone_is_not_compiled_and_the_others_share_what_is(
    parts_of_steps: list[CompiledParts | None],
) -> None:
    backbone, again, frozen, joint = parts_of_steps
    assert isinstance(backbone, CompiledParts)
    assert frozen is None
    assert again is joint is backbone


def test_without_a_gpu_steps_are_plain_and_compiling_is_refused(preset: Path) -> None:
    config = load_preset(str(preset))
    model, here = TraceModel.from_config(config), Processes(0, 1, torch.device("cpu"))
    now = moment(0, config.backbone_stage.epochs, config.trace_stage)
    phases = Phases(config, model, here)
    step = phases.step(now, phases.optimiser(now), PAYS_AFTER_STEPS)
    assert isinstance(step, PlainStep)
    assert not isinstance(step, GraphedStep)
    with pytest.raises(ConfigError, match="compile = on"):
        Phases(replace(config, compile="on"), model, here).step(now, phases.optimiser(now), 1)
