"""What a phase of training runs with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.training import ConfigError, PhaseSetup, PlainStep, Processes, TraceModel, load_preset, phase_at
from prvr.training import phases as module
from prvr.training.compiled_model import (
    PAYS_AFTER_STEPS,
    PAYS_AGAIN_AFTER_STEPS,
    CompiledModel,
    compiled_before,
)
from prvr.training.step import GraphedStep


@pytest.fixture
def captured_steps(preset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[PlainStep]:
    """The step that each epoch's phase captures, as if this machine had a GPU."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    steps: list[PlainStep] = []
    monkeypatch.setattr(module, "GraphedStep", lambda plain, videos, config, repeated: steps.append(repeated or plain))
    monkeypatch.setattr(module.optim, "rate_on_device", lambda optimiser, device: None)
    config = load_preset(str(preset))
    model = TraceModel.from_config(config)
    setup = PhaseSetup(config, model, Processes(0, 1, torch.device("cuda")))
    for epoch in range(4):  # two of the backbone, one frozen, one joint
        now = phase_at(epoch, config.backbone_stage.epochs, config.trace_stage)
        setup.step(now, setup.optimiser(now), PAYS_AFTER_STEPS)
    return steps


def test_a_frozen_backbone_is_not_compiled_and_the_others_share_what_is(captured_steps: list[PlainStep]) -> None:
    backbone, again, frozen, joint = (step.loss_terms for step in captured_steps)
    assert isinstance(backbone, CompiledModel)
    assert frozen is captured_steps[2].model
    assert again is joint is backbone


def test_without_a_gpu_steps_are_plain_and_compiling_is_refused(preset: Path) -> None:
    config = load_preset(str(preset))
    model, here = TraceModel.from_config(config), Processes(0, 1, torch.device("cpu"))
    now = phase_at(0, config.backbone_stage.epochs, config.trace_stage)
    setup = PhaseSetup(config, model, here)
    step = setup.step(now, setup.optimiser(now), PAYS_AFTER_STEPS)
    assert isinstance(step, PlainStep)
    assert not isinstance(step, GraphedStep)
    with pytest.raises(ConfigError, match="compile = on"):
        PhaseSetup(replace(config, compile="on"), model, here).step(now, setup.optimiser(now), 1)


def test_a_model_that_was_compiled_before_is_compiled_for_shorter_trainings(
    preset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(module, "GraphedStep", lambda plain, videos, config, repeated: repeated or plain)
    monkeypatch.setattr(module.optim, "rate_on_device", lambda optimiser, device: None)
    config = load_preset(str(preset))
    model, gpu = TraceModel.from_config(config), Processes(0, 1, torch.device("cuda"))
    now = phase_at(0, config.backbone_stage.epochs, config.trace_stage)

    def is_compiled() -> bool:
        setup = PhaseSetup(config, model, gpu)
        step = setup.step(now, setup.optimiser(now), PAYS_AGAIN_AFTER_STEPS)
        assert isinstance(step, PlainStep)
        return isinstance(step.loss_terms, CompiledModel)

    assert not is_compiled()
    compiled_before(model, config.batch_size).note()
    assert is_compiled()
