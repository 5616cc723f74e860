"""Frozen transfer: chosen on validation, nothing of the backbone changes, the shared sweep is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prvr.backbones import build
from prvr.cli import main
from prvr.data import Dataset
from prvr.evaluation.transfer import TRANSFER_LAMBDAS, TransferSplit, encode_split, transfer_trace
from prvr.scoring import NotSeparable, sweep_anchors
from prvr.tokens import VideoTokens
from prvr.trace import ANCHOR_KINDS, TraceConfig, trace_evidence, with_anchors
from prvr.training import Run, TraceModel, load_preset


@pytest.fixture
def encoding() -> TransferSplit:
    mask = torch.arange(9) < torch.randint(1, 10, (12, 1))
    videos = VideoTokens(torch.randn(12, 9, 8), mask, torch.randn(12, 4, 8))
    return TransferSplit(torch.randn(20, 8), videos, torch.randn(20, 12), torch.arange(20) % 12)


@pytest.mark.parametrize("gate", [False, True])
def test_the_shared_sweep_equals_trace_on_each_set_of_anchors(gate: bool, encoding: TransferSplit) -> None:
    config = TraceConfig(gate=gate)
    sets = {kind: with_anchors(encoding.videos, kind).registers for kind in ANCHOR_KINDS}
    five_videos = 20 * 9 * 5
    known = {kind: anchor for kind, anchor in sets.items() if anchor is not None}
    found = sweep_anchors(encoding.queries, encoding.videos, known, config, tile_elements=five_videos)
    for kind, anchor in sets.items():
        assert anchor is not None
        videos = encoding.videos
        expected = trace_evidence(encoding.queries, anchor, videos.frames, videos.frame_mask, config=config).score
        torch.testing.assert_close(found[kind], expected, atol=1e-5, rtol=0)


def test_the_choice_is_made_on_validation_alone(encoding: TransferSplit) -> None:
    other = TransferSplit(torch.randn(20, 8), encoding.videos, torch.randn(20, 12), encoding.truth)
    one, two = transfer_trace(encoding, encoding), transfer_trace(encoding, other)
    assert (one.anchor, one.fusion_weight) == (two.anchor, two.fusion_weight)
    best = max(one.validation.values())
    assert one.validation[one.anchor, one.fusion_weight] == best
    assert len(one.validation) == len(ANCHOR_KINDS) * len(TRANSFER_LAMBDAS)


def test_nothing_of_the_backbone_changes(world: Path, preset: Path) -> None:
    model = TraceModel.from_config(load_preset(str(preset)))
    before = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    split = encode_split(model.backbone, Dataset.load(world, "synth", "val", frames=24))
    transfer_trace(split, split, config=TraceConfig())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.backbone.state_dict().items())


def test_the_command_prints_the_papers_table(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out), "--trace-stage.epochs", "0"]
    assert main([*words, "--backbone-stage.epochs", "1"]) == 0
    assert Run(out).has_weights("average")
    assert main(["transfer", str(out)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("+route SumR", "dreamprvr", "anchor"))


def test_a_method_without_a_query_vector_is_refused_in_one_sentence(world: Path) -> None:
    model = build("cap4video", visual_width=24, query_width=20, width=16, heads=2, layers=1)
    with pytest.raises(NotSeparable, match="cap4video keeps a query's words, but TRACE needs each query as one vector"):
        encode_split(model, Dataset.load(world, "synth", "val"))
