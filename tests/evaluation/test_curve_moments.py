"""Stretches of a curve and their overlaps, on cases small enough to see."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prvr.evaluation.curve_moments import best_overlaps, best_stretches, curve_stretches
from prvr.trace import temporal_iou


def test_a_plateau_is_found_exactly() -> None:
    curve = np.zeros(20)
    curve[6:11] = 1.0
    assert curve_stretches(curve, 1)[0] == pytest.approx([6 / 20, 11 / 20])
    assert best_overlaps(curve, [(6 / 20, 11 / 20)]) == pytest.approx([1.0, 1.0])
    assert best_overlaps(curve, [(0.8, 0.9)])[0] == 0.0


def test_the_second_answer_is_the_second_plateau() -> None:
    curve = np.zeros(30)
    curve[3:8], curve[20:24] = 1.0, 0.9
    found = curve_stretches(curve, 5)
    assert found[0] == pytest.approx([3 / 30, 8 / 30])
    assert best_overlaps(curve, [(20 / 30, 24 / 30)]) == pytest.approx([0.0, 1.0])
    assert best_overlaps(curve, [(20 / 30, 24 / 30), (3 / 30, 8 / 30)]) == pytest.approx([1.0, 1.0])  # the best window
    for n in range(1, len(found)):
        assert temporal_iou(found[:n, 0], found[:n, 1], *found[n]).max() <= 0.5


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_the_shortest_videos_have_an_answer(frames: int) -> None:
    found = curve_stretches(np.linspace(0, 1, frames))
    assert 1 <= len(found) <= 5
    assert (found[:, 0] < found[:, 1]).all()
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("frames", [2, 5, 17])
def test_many_curves_at_once_give_what_a_simple_loop_gives(frames: int) -> None:
    curves = torch.rand(6, frames, dtype=torch.float64)
    found = best_stretches(curves, 4)
    for row, curve in enumerate(curves.tolist()):
        pairs = [(a, b) for a in range(frames) for b in range(a + 1, frames + 1) if b - a < frames]
        left = {(a, b): split_score(curve, a, b) for a, b in pairs}
        for place in range(4):
            if not left:
                assert found.score[row, place] == -torch.inf
                continue
            best = max(left, key=lambda pair: left[pair])
            assert (int(found.start[row, place]), int(found.stop[row, place])) == best
            assert float(found.score[row, place]) == pytest.approx(left[best])
            left = {p: s for p, s in left.items() if temporal_iou(*p, *best) <= 0.5}


def split_score(curve: list[float], start: int, stop: int) -> float:
    """Mean inside minus mean outside, times √(n·(m − n))/m."""
    inside, outside = curve[start:stop], curve[:start] + curve[stop:]
    contrast = sum(inside) / len(inside) - sum(outside) / len(outside)
    return contrast * (len(inside) * len(outside)) ** 0.5 / len(curve)
