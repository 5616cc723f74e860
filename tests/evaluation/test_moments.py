"""Stretches of a curve, overlaps, agreement and subsets, on cases small enough to see."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prvr.evaluation.findings import RegisterSpread
from prvr.evaluation.moments import best_overlaps, curve_stretches
from prvr.evaluation.report.localisation import agrees, clip_of_frame
from prvr.evaluation.report.registers import chosen_pairs, dominant_shares
from prvr.evaluation.report.subsets import gap_quartiles, hardest_share
from prvr.evaluation.significance import mean_rank_gain
from prvr.trace import temporal_iou


def test_a_plateau_is_found_exactly() -> None:
    curve = np.zeros(20)
    curve[6:11] = 1.0
    assert curve_stretches(curve, 1)[0] == pytest.approx([6 / 20, 11 / 20])
    assert best_overlaps(curve, (6 / 20, 11 / 20)) == pytest.approx([1.0, 1.0])
    assert best_overlaps(curve, (0.8, 0.9))[0] == 0.0


def test_the_second_answer_is_the_second_plateau() -> None:
    curve = np.zeros(30)
    curve[3:8], curve[20:24] = 1.0, 0.9
    found = curve_stretches(curve, 5)
    assert found[0] == pytest.approx([3 / 30, 8 / 30])
    assert best_overlaps(curve, (20 / 30, 24 / 30)) == pytest.approx([0.0, 1.0])
    for n in range(1, len(found)):
        assert temporal_iou(found[:n, 0], found[:n, 1], *found[n]).max() <= 0.5


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_the_shortest_videos_have_an_answer(frames: int) -> None:
    found = curve_stretches(np.linspace(0, 1, frames))
    assert 1 <= len(found) <= 5
    assert (found[:, 0] < found[:, 1]).all()
    assert found.min() >= 0
    assert found.max() <= 1


def test_a_frame_belongs_to_the_clip_around_its_middle() -> None:
    frames = torch.tensor([128, 128, 128, 3, 3, 3])
    frame = torch.tensor([0, 3, 4, 0, 1, 2])
    assert clip_of_frame(frame, frames, 32).tolist() == [0, 0, 1, 5, 16, 26]
    assert agrees(frame, frames, torch.tensor([0, 1, 1, 5, 0, 26]), 32).tolist() == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    assert agrees(frame[1:2], frames[1:2], torch.tensor([1]), 32, within=1).item()


def test_subsets_nest_and_quartiles_part_the_errors() -> None:
    gap = torch.tensor([0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6])
    errors = gap != 0.5
    half, quarter = hardest_share(gap, errors, 0.5), hardest_share(gap, errors, 0.25)
    assert sorted(gap[half].tolist()) == pytest.approx([0.6, 0.7, 0.8, 0.9])
    assert sorted(gap[quarter].tolist()) == pytest.approx([0.8, 0.9])
    bins = gap_quartiles(gap, errors)
    assert [int(b.sum()) for b in bins] == [2, 2, 2, 2]
    assert torch.equal(bins[0] | bins[1] | bins[2] | bins[3], errors)
    assert torch.equal(bins[3], quarter)


def test_the_mean_gain_is_in_ranks() -> None:
    found = mean_rank_gain(torch.tensor([10, 5, 3, 8]), torch.tensor([4, 5, 5, 8]))
    assert found.delta == pytest.approx(1.0)
    assert found.low <= 1.0 <= found.high


def test_collapsed_registers_are_recognised() -> None:
    one = torch.nn.functional.normalize(torch.randn(1, 1, 16), dim=-1).expand(5, 4, 16)
    spread = RegisterSpread.of(one)
    assert (spread.within, spread.between) == pytest.approx((1.0, 1.0), abs=1e-5)
    apart = torch.eye(8).view(2, 4, 8)
    spread = RegisterSpread.of(apart)
    assert (spread.within, spread.between) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_shown_pairs_follow_from_the_rule() -> None:
    activation = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    assert chosen_pairs(activation, 3) == [0, 3, 2]
    assert dominant_shares(activation).tolist() == [0.5, 0.5]
