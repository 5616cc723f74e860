"""Padding a batch to a fixed shape changes neither losses nor gradients; captured steps equal plain ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from prvr.data import Dataset
from prvr.training import (
    ConfigError,
    PlainStep,
    Run,
    TraceModel,
    Trainer,
    backbone_optimiser,
    join_processes,
    load_preset,
    phase_at,
)
from prvr.training.compiled_model import CompiledModel
from prvr.training.optim import rate_on_device
from prvr.training.step import GraphedStep, pad_batch


def calm_model(preset: Path) -> TraceModel:
    """Nothing drawn by chance."""
    config = load_preset(str(preset))
    model: Any = config.model
    calm = dataclasses.replace(model, dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1)
    torch.manual_seed(0)
    return TraceModel.from_config(dataclasses.replace(config, model=calm))


@pytest.mark.parametrize("epoch", [1, 4], ids=["backbone", "joint"])
def test_padding_changes_neither_losses_nor_gradients(epoch: int, preset: Path, world: Path) -> None:
    batch = Dataset.load(world, "synth", "train", frames=24).train_batch(range(7))
    found: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
    for given in (batch, pad_batch(batch, 24, 30)):
        model = calm_model(preset)
        now = phase_at(epoch, 2, model.stage)
        model.enter(now)
        terms = model(given, now, None)
        torch.stack(list(terms.values())).sum().backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append(({n: t.detach() for n, t in terms.items()}, gradients))
    (plain, plain_gradients), (padded, padded_gradients) = found
    assert padded.keys() == plain.keys()
    for name, value in plain.items():
        torch.testing.assert_close(padded[name], value, atol=1e-6, rtol=1e-4)
    for name, gradient in plain_gradients.items():
        torch.testing.assert_close(padded_gradients[name], gradient, atol=1e-6, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_steps_equal_plain_ones(preset: Path, world: Path) -> None:
    device = torch.device("cuda")
    dataset = Dataset.load(world, "synth", "train", frames=24).to(device)
    ends = []
    for graphed in (False, True):
        model = calm_model(preset).to(device)
        config = load_preset(str(preset))
        optimiser = backbone_optimiser(model.backbone, config.backbone_stage)
        rate_on_device(optimiser, device)
        plain = PlainStep(model, optimiser, None)
        step = GraphedStep(plain, 10, model.backbone.config) if graphed else plain
        for number in range(24):
            now = phase_at(number // 12, 2, model.stage)  # negatives become hard half way
            model.enter(now)
            videos = 10 if number % 2 else 7  # the last batch of an epoch has fewer
            step(dataset.train_batch(range(videos)), now, torch.Generator(device).manual_seed(number))
        if isinstance(step, GraphedStep):
            assert {key[0] for key in step.captured} == {7, 10}
        ends.append({name: p.detach().clone() for name, p in model.named_parameters()})
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, atol=1e-4, rtol=1e-3)


def test_compiling_where_it_cannot_be_done_is_refused(preset: Path, world: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(load_preset(str(preset)), compile="on")
    run = Run(tmp_path / "run")
    run.create(config, world)
    with join_processes("cpu") as group, pytest.raises(ConfigError, match="one GPU; here: 1 process"):
        Trainer(config, world, run, group, Console(quiet=True)).train()


def test_only_steps_of_the_usual_shape_meet_the_compiler(
    preset: Path, world: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    calls: list[str] = []

    def compile_nothing(forward: Callable[..., Tensor], *, dynamic: bool) -> Callable[..., Tensor]:
        def compiled(*given: Any, **named: Any) -> Tensor:
            calls.append(forward.__qualname__)
            return forward(*given, **named)

        return compiled

    monkeypatch.setattr(torch, "compile", compile_nothing)
    model, data = calm_model(preset), Dataset.load(world, "synth", "train", frames=24)
    compiled = CompiledModel(model, 7)
    now = phase_at(1, 2, model.stage)
    model.enter(now)
    usual, last = pad_batch(data.train_batch(range(7)), 24, 30), data.train_batch(range(7, 10))
    terms = compiled(usual, now, None)
    first = list(calls)
    again = compiled(usual, now, None)
    assert len(set(first)) > 3  # banks, chain, queries, TRACE …
    assert calls == 2 * first
    for name, value in model(usual, now, None).items():
        assert torch.equal(terms[name], value)
        assert torch.equal(again[name], value)
    assert not any("compiled" in name for name, _ in model.named_modules())
    model(last, now, None)
    model.backbone.eval()
    model.backbone.encode_video_batch(last.videos)
    assert calls == 2 * first
