"""Agreement, subsets and registers of the report, on cases small enough to see."""

from __future__ import annotations

import pytest
import torch

from prvr.evaluation.report.localisation import agrees, clip_of_frame
from prvr.evaluation.report.registers import chosen_pairs, dominant_shares
from prvr.evaluation.report.subsets import gap_quartiles, hardest_share
from prvr.trace import RegisterSpread


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
