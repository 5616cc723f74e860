"""Anchors stand in for registers: what they are made of, and what does not change them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import Trace
from prvr.trace.anchors import ANCHOR_KINDS, anchors, global_anchors, temporal_anchors, with_anchors


@pytest.fixture
def videos() -> VideoTokens:
    mask = torch.arange(12) < torch.tensor([[12], [5], [1]])
    return VideoTokens(torch.randn(3, 12, 8), mask, torch.randn(3, 4, 8))


@pytest.mark.parametrize("kind", ANCHOR_KINDS)
def test_anchors_are_unit_vectors_that_trace_can_use(kind: str, videos: VideoTokens) -> None:
    made = with_anchors(videos, kind)
    assert made.registers is not None
    assert made.registers.shape[1] == (8 if kind == "hybrid" else int(kind.split("-")[1]))
    assert torch.allclose(made.registers.norm(dim=-1), torch.ones(()), atol=1e-5)
    assert torch.isfinite(Trace(8)(torch.randn(2, 8), made)).all()


@pytest.mark.parametrize("kind", ["temporal-4", "global-4", "global-1"])
def test_padding_changes_nothing(kind: str, videos: VideoTokens) -> None:
    garbage = torch.where(videos.frame_mask[..., None], videos.frames, torch.nan)
    dirty = VideoTokens(garbage, videos.frame_mask, videos.clips)
    assert torch.equal(anchors(videos, kind), anchors(dirty, kind))


def test_temporal_anchors_are_means_of_near_equal_runs() -> None:
    tokens = torch.randn(1, 10, 6)
    made = temporal_anchors(tokens, torch.ones(1, 10, dtype=torch.bool), 3)
    runs = [tokens[0, 0:3], tokens[0, 3:6], tokens[0, 6:10]]
    expected = torch.stack([F.normalize(run.mean(0), dim=-1) for run in runs])
    torch.testing.assert_close(made[0], expected)


def clusters() -> Tensor:
    """Three tight bunches of directions, shuffled."""
    centres = torch.eye(3).repeat_interleave(5, 0)
    return (centres + 0.05 * torch.randn(15, 3))[torch.randperm(15)][None]


def test_global_anchors_find_the_bunches_in_any_order() -> None:
    tokens = clusters()
    mask = torch.ones(1, 15, dtype=torch.bool)
    made = global_anchors(tokens, mask, 3)[0]
    assert (made @ torch.eye(3)).amax(0).min() > 0.99
    shuffled = global_anchors(tokens[:, torch.randperm(15)], mask, 3)[0]
    assert (made @ shuffled.T).amax(1).min() > 0.999


def test_anchors_come_from_the_tokens_a_backbone_names(videos: VideoTokens) -> None:
    by_clips = replace(videos, evidence_from="clips")
    everything = torch.ones(3, 4, dtype=torch.bool)
    assert torch.equal(anchors(by_clips, "temporal-4"), temporal_anchors(videos.clips, everything, 4))


def test_hybrid_keeps_a_backbones_own_registers() -> None:
    registers = torch.randn(2, 3, 8)
    videos = VideoTokens(torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool), torch.randn(2, 4, 8), registers)
    made = with_anchors(videos, "hybrid").registers
    assert made is not None
    torch.testing.assert_close(made[:, :3], F.normalize(registers, dim=-1))


def test_unknown_anchors_are_refused(videos: VideoTokens) -> None:
    with pytest.raises(ValueError, match="unknown anchors 'spatial-4'"):
        anchors(videos, "spatial-4")
