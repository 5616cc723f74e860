"""With ``fused_base`` the backbone's ranking losses see the fused score; by default they never do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.data import Dataset
from prvr.training import ConfigError, TraceModel, load_preset, phase_at


def terms_at(preset: Path, world: Path, epoch: int, fused: bool) -> tuple[dict[str, torch.Tensor], TraceModel]:
    config = load_preset(str(preset))
    calm = replace(config.model, dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1)
    stage = replace(config.trace_stage, epochs=6, frozen_epochs=1, fusion_start=2, fusion_ramp=2, fused_base=fused)
    trace = replace(config.trace, fusion_weight=0.5)
    torch.manual_seed(0)
    model = TraceModel.from_config(replace(config, model=calm, trace_stage=stage, trace=trace))
    now = phase_at(epoch, 2, stage)
    model.enter(now)
    return model(Dataset.load(world, "synth", "train", frames=24).train_batch(range(7)), now, None), model


def test_the_fused_score_enters_the_ranking_losses_as_its_weight_rises(preset: Path, world: Path) -> None:
    ranking = ("nce_clip", "nce_frame", "triplet_clip", "triplet_frame")
    for epoch, changed in ((4, False), (7, True)):  # t = 2: λ(t) is still 0; t = 5: all of it
        plain, _ = terms_at(preset, world, epoch, fused=False)
        fused, _ = terms_at(preset, world, epoch, fused=True)
        assert plain.keys() == fused.keys()
        assert all((bool(plain[name] == fused[name]) is not changed) for name in ranking if plain[name] > 0)
        assert torch.equal(plain["trace_nce"], fused["trace_nce"])


def test_evidence_learns_from_the_backbone_s_losses(preset: Path, world: Path) -> None:
    terms, model = terms_at(preset, world, 7, fused=True)
    terms["nce_clip"].backward()  # type: ignore[no-untyped-call]
    assert all(float(p.grad.abs().sum()) > 0 for p in model.trace.parameters() if p.grad is not None)
    assert any(p.grad is not None for p in model.trace.parameters())


def test_a_method_whose_losses_take_no_evidence_says_so() -> None:
    config = load_preset("charades", "clip4clip")
    stage = replace(config.trace_stage, epochs=2, fused_base=True)
    with pytest.raises(ConfigError, match="no words"):
        TraceModel.from_config(replace(config, witness_stage=replace(config.witness_stage, steps=9)))
    with pytest.raises(ConfigError, match="fused-base"):
        TraceModel.from_config(replace(config, trace_stage=stage, trace=replace(config.trace, anchors="hybrid")))
