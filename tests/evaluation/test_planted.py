"""Planted unsupported peaks: the answer is known by construction, and the study must give it."""

from __future__ import annotations

import pytest
import torch

from prvr.evaluation.findings import Study
from prvr.evaluation.report.case import chosen_case
from prvr.evaluation.report.corruption import corruption
from prvr.evaluation.report.margins import corrections
from prvr.evaluation.report.subsets import hard_negatives
from prvr.evaluation.study import run_study
from prvr.evaluation.subject import Subject

PLANTED_FRAME, EVENT_FRAME = 5, 3


@pytest.fixture(scope="module")
def found(planted: Subject) -> Study:
    return run_study(planted)


def first(found: Study, scoring: str) -> float:
    """Share of queries whose own video is first."""
    return float((found.ranks[scoring] == 1).double().mean())


def test_max_pooling_falls_for_every_peak_and_trace_for_none(found: Study) -> None:
    assert first(found, "base") == 0.0
    assert first(found, "trace") == first(found, "route_only") == 1.0
    assert first(found, "direct_only") == 0.0, "a second maximum of the same evidence corrects nothing"


def test_a_destroyed_route_corrects_less(found: Study) -> None:
    assert first(found, "uniform") == 0.0
    assert first(found, "cross_video") < 1.0
    assert first(found, "shuffled_grounding") < 1.0


def test_the_hard_negative_is_the_planted_video_at_the_planted_frame(found: Study) -> None:
    assert found.views is not None
    assert found.views.negative is not None
    assert found.views.truth is not None
    assert found.rivals.negative.tolist() == [2 * n + 1 for n in range(6)]
    assert (found.views.negative.direct_peak == PLANTED_FRAME).all()
    assert (found.views.truth.direct_peak == EVENT_FRAME).all()
    assert (found.views.truth.routed_peak == EVENT_FRAME).all()
    # d = 0.5·0 + 0.866·0.85 at the peak; the activated register (t, π ≈ 1) has b = 0 there
    assert found.views.negative.direct_at_peak.tolist() == pytest.approx([0.75**0.5 * 0.85] * 6, abs=1e-5)
    assert found.views.negative.support_at_peak.abs().max() < 1e-3
    assert found.views.truth.support_at_peak.tolist() == pytest.approx([0.45] * 6, abs=1e-3)
    assert (found.views.negative.unsupported_gap > found.views.truth.unsupported_gap + 0.4).all()


def test_the_report_says_so(found: Study) -> None:
    case = chosen_case(found)
    assert case is not None
    assert (case.rank_before, case.rank_after) == (2, 1)
    assert case.margin_before < 0 < case.margin_after
    gains = corrections(found).tables[0].rows
    assert len(gains) == 6
    assert all(row[5] > row[6] for row in gains), "ΔGT exceeds ΔHN"  # type: ignore[operator]
    verdicts = corruption(found).verdicts
    assert verdicts[0].holds is True, "TRACE beats uniform activation"
    assert verdicts[2].holds is True, "TRACE beats shuffled grounding"
    subsets = {row[0]: row for row in hard_negatives(found).tables[0].rows}
    assert subsets["baseline errors"][1] == 6
    assert subsets["top 25 % by gap"][1] == 2  # round(1.5)
    assert subsets["all queries"][-1] == 1.0, "every query gains one rank"


def test_sweeps_meet_the_rows_they_must(found: Study) -> None:
    assert torch.equal(found.sweeps["λ"][0.0], found.ranks["base"])
    assert torch.equal(found.sweeps["η"][0.0], found.ranks["route_only"])
    assert torch.equal(found.sweeps["γ"][0.0], found.ranks["direct_soft"])
