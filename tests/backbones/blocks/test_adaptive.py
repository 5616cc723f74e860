"""Adaptive moments cover a video, cut it where it changes, and lend between its parts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from prvr.backbones.blocks import adaptive


def scenes(*lengths: int, noise: float = 0.02, width: int = 32) -> torch.Tensor:
    """Frames of several scenes that wobble a little, each in its own direction."""
    directions = torch.eye(width)
    frames = torch.cat([directions[i].expand(n, -1) for i, n in enumerate(lengths)])
    return F.normalize(frames + noise * torch.randn(frames.shape), dim=-1)


@pytest.mark.parametrize("count", [1, 2, 3, 15, 16, 40, 1279, 1281, 3000])
def test_moments_cover_the_video_without_gaps(count: int) -> None:
    moments = adaptive.adaptive_moments(torch.randn(count, 8).cumsum(0))
    assert moments.spans[0, 0] == 0
    assert moments.spans[-1, 1] == count
    assert (moments.spans[1:, 0] == moments.spans[:-1, 1]).all()
    assert (moments.spans[:, 1] > moments.spans[:, 0]).all()
    assert moments.vectors.isfinite().all()


def test_still_frames_are_one_moment() -> None:
    still = torch.ones(100, 8)
    assert adaptive.change_signal(F.normalize(still, dim=-1)).abs().max() == 0
    moments = adaptive.adaptive_moments(still)
    assert len(moments.vectors) == 1
    torch.testing.assert_close(F.normalize(moments.vectors[0], dim=-1), F.normalize(still[0], dim=-1))


def test_the_change_signal_is_the_turn() -> None:
    """A right angle turns by 1, going back by 2, straight on by 0; a step after standing still counts 1."""
    path = torch.tensor(
        [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    )
    assert adaptive.change_signal(path).tolist() == [0.0, 1.0, 2.0, 1.0, 0.0, 1.0]


def test_scene_changes_are_boundaries() -> None:
    moments = adaptive.adaptive_moments(scenes(40, 30, 50, noise=0.0))
    starts = set(moments.spans[:, 0].tolist())
    for cut in (40, 70):
        assert starts & {cut - 1, cut, cut + 1}


def test_the_graph_by_hand() -> None:
    """Two levels: one segment over four frames; two halves. Expected from the recipe's formulas."""
    vectors = F.normalize(torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), dim=-1)
    segments = torch.tensor([[0, 4], [0, 2], [2, 4]])
    level = torch.tensor([0, 1, 1])
    side = 0.5 * 2**-0.5  # temporal IoU 1/2 times cosine
    near = torch.exp(torch.tensor(-1.0))  # centres two apart, mean length two, cosine zero
    weights = torch.tensor([[1, side, side], [side, 1, near], [side, near, 1]])
    degree = weights.sum(1)
    expected = weights / (degree[:, None] * degree).sqrt()
    found = adaptive.graph(vectors, segments, level)
    torch.testing.assert_close(found, expected)
    spread = adaptive.propagate(vectors, found, 0.7)
    torch.testing.assert_close(spread, 0.3 * torch.linalg.inv(torch.eye(3) - 0.7 * expected) @ vectors)
    torch.testing.assert_close(adaptive.propagate(vectors, found, 0.0), vectors)


def test_chapters_agree_with_the_whole_away_from_their_borders() -> None:
    frames = scenes(*[25] * 24, width=64)
    whole = adaptive.adaptive_moments(frames, chapter=10_000)
    parts = adaptive.adaptive_moments(frames, chapter=200, overlap=100)
    both = set(map(tuple, whole.spans.tolist())) & set(map(tuple, parts.spans.tolist()))
    assert len(both) > 0.4 * len(whole.spans)


def test_windows_and_frames() -> None:
    frames = torch.randn(10, 4)
    assert adaptive.fixed_windows(frames, 4, 3).spans.tolist() == [[0, 4], [3, 7], [6, 10]]
    assert adaptive.fixed_windows(frames[:2], 4, 3).spans.tolist() == [[0, 2]]
    torch.testing.assert_close(adaptive.single_frames(frames).vectors, F.normalize(frames, dim=-1))
