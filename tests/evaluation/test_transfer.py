"""Frozen transfer: chosen on validation, nothing of the backbone changes, the shared sweep is exact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from prvr.backbones import build
from prvr.cli import main
from prvr.data import Dataset
from prvr.evaluation.transfer import (
    PAPER_ANCHORS,
    PAPER_LAMBDAS,
    TRANSFER_LAMBDAS,
    TransferSplit,
    encode_split,
    transfer_trace,
)
from prvr.scoring import NotSeparable, sweep_anchors
from prvr.tokens import VideoTokens
from prvr.trace import ANCHOR_KINDS, TraceConfig, UnknownAnchors, trace_evidence, with_anchors
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


@pytest.fixture(scope="module")
def plain_run(world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone with registers that was trained without TRACE, as an imported checkpoint is."""
    out = tmp_path_factory.mktemp("plain") / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out), "--trace-stage.epochs", "0"]
    assert main([*words, "--backbone-stage.epochs", "1"]) == 0
    return out


def test_the_command_prints_the_papers_table(plain_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Run(plain_run).has_weights("average")
    assert main(["transfer", str(plain_run)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("+route SumR", "dreamprvr", "anchor"))
    assert "WARNING" not in text


def saved(run: Path, split: str = "test") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "transfer" / f"{split}.json").read_text("utf-8"))
    return found


def test_the_papers_grid_and_ones_own_can_be_tried(plain_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transfer", str(plain_run), "--grid", "paper"]) == 0
    tried = {(row["anchor"], row["fusion_weight"]) for row in saved(plain_run)["validation"]}
    assert tried == {(kind, value) for kind in PAPER_ANCHORS for value in PAPER_LAMBDAS}
    assert {"temporal-4", "temporal-6", "temporal-8", "global-4"} == set(PAPER_ANCHORS)  # spec: Table S1
    assert {0.0, 0.01, 0.015, 0.06, 0.1, 0.12, 0.15, 0.2} == set(PAPER_LAMBDAS)
    assert main(["transfer", str(plain_run), "--anchors", "registers", "global-2", "--lambdas", "0", "0.5"]) == 0
    tried = {(row["anchor"], row["fusion_weight"]) for row in saved(plain_run)["validation"]}
    assert tried == {(kind, value) for kind in ("registers", "global-2") for value in (0.0, 0.5)}
    assert main(["transfer", str(plain_run), "--anchors", "spatial-3"]) == 1
    assert (
        "unknown anchors 'spatial-3'; there are temporal-K, global-K, hybrid and registers" in capsys.readouterr().err
    )
    assert main(["transfer", str(plain_run), "--lambdas", "-1"]) == 1
    assert "at least 0" in capsys.readouterr().err


def test_zero_leaves_trace_out(encoding: TransferSplit) -> None:
    found = transfer_trace(encoding, encoding, lambdas=(0.0,))
    assert found.comparison.delta_sum_r == 0
    assert torch.equal(found.ranks["base"], found.ranks["final"])


def test_registers_are_tried_where_a_backbone_has_them(encoding: TransferSplit) -> None:
    own = replace(encoding.videos, registers=torch.randn(12, 3, 8))
    found = transfer_trace(replace(encoding, videos=own), replace(encoding, videos=own))
    assert {kind for kind, _ in found.validation} == {"registers", *ANCHOR_KINDS}
    with pytest.raises(UnknownAnchors, match="this backbone has no registers"):
        transfer_trace(encoding, encoding, kinds=("registers",))


def test_a_choice_on_the_reported_split_is_said_loudly(plain_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transfer", str(plain_run), "--split", "val", "--anchors", "global-1", "--lambdas", "0.1"]) == 0
    assert "WARNING: val and val hold the same queries" in " ".join(capsys.readouterr().out.split())
    assert saved(plain_run, "val")["chosen_on_the_reported_split"] is True


def test_the_report_shows_the_registers_of_a_run_without_trace(
    plain_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(plain_run), "--only", "registers"]) == 0
    assert "Registers of one video have a mean cosine of" in " ".join(capsys.readouterr().out.split())
    page = next((plain_run / "report").rglob("*.html")).read_text("utf-8")
    assert "the backbone's own registers" in page.replace("&#x27;", "'").replace("’", "'")


def test_a_method_without_a_query_vector_is_refused_in_one_sentence(world: Path) -> None:
    model = build("cap4video", visual_width=24, query_width=20, width=16, heads=2, layers=1)
    with pytest.raises(NotSeparable, match="cap4video keeps a query's words, but TRACE needs each query as one vector"):
        encode_split(model, Dataset.load(world, "synth", "val"))
