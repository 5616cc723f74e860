"""Scores to probabilities: what is said is as often true, for libraries of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from prvr.scoring import Calibration, LibraryOdds, fit_calibration, known_searches

Matrix = NDArray[np.float32]


def drawn(queries: int, videos: int, seed: int, lead: float = 2.5) -> tuple[Matrix, list[list[int]]]:
    """Scores of unrelated pairs are drawn from one bell curve, those of matching pairs from another."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, (queries, videos)).astype(np.float32)
    positives = [sorted(set(rng.integers(videos, size=1 + (row % 5 == 0)).tolist())) for row in range(queries)]
    for row, right in enumerate(positives):
        scores[row, right] += rng.normal(lead, 0.5, len(right)).astype(np.float32)
    return scores, positives


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    fitted = fit_calibration(*drawn(300, 60, 0))
    assert fitted is not None
    return fitted


@pytest.mark.parametrize(("videos", "error"), [(30, 0.05), (60, 0.05), (240, 0.08)])
def test_probabilities_are_true_on_other_searches(calibration: Calibration, videos: int, error: float) -> None:
    """For as many videos as it was fitted on, half as many, and four times as many."""
    quality = known_searches(calibration, *drawn(1000, videos, 1)).quality
    assert quality.searches == 2000
    assert quality.presence_error < error
    assert quality.right_error < error
    assert quality.presence_auc > 0.6
    assert quality.right_auc > 0.7


@pytest.mark.parametrize("videos", [20, 320])
def test_a_library_of_alike_videos_may_have_any_size(videos: int) -> None:
    """Fitted on 80 videos of ten kinds. Bayes' rule alone is too sure of 20 of them, and not sure enough of 320."""

    def alike(queries: int, videos: int, seed: int) -> tuple[Matrix, list[list[int]]]:
        scores, positives = drawn(queries, videos, seed)
        kinds = np.random.default_rng(seed).normal(0, 0.5, (queries, 10)).astype(np.float32)
        return 0.5 * scores + kinds[:, np.arange(videos) % 10], positives

    fitted = fit_calibration(*alike(300, 80, 0))
    assert fitted is not None
    by_rule = replace(fitted, presence_by_size=0.0, right_by_size=0.0)
    searches = alike(1000, videos, 1)
    assert known_searches(by_rule, *searches).quality.presence_error > 0.08
    quality = known_searches(fitted, *searches).quality
    assert quality.presence_error < 0.05
    assert quality.right_error < 0.05


def test_scores_that_say_nothing_give_no_certainty() -> None:
    fitted = fit_calibration(*drawn(300, 60, 0, lead=0.0))
    assert fitted is not None
    known = known_searches(fitted, *drawn(500, 60, 1, lead=0.0))
    assert known.quality.presence_error < 0.05
    scores, _ = drawn(50, 60, 2, lead=0.0)
    assert all(0.35 < LibraryOdds(fitted, row).presence < 0.65 for row in scores)


def test_an_answer_is_not_more_probable_than_that_there_is_one(calibration: Calibration) -> None:
    scores, _ = drawn(50, 60, 4)
    for row in scores:
        odds = LibraryOdds(calibration, row)
        assert odds.right(float(row.max())) <= odds.presence


def test_more_score_is_more_probable(calibration: Calibration) -> None:
    scores = np.linspace(-2, 4, 50, dtype=np.float32)
    odds = LibraryOdds(calibration, scores)
    rights = [odds.right(float(score)) for score in scores]
    assert rights == sorted(rights)
    assert 0 <= rights[0] < rights[-1] <= 1
    assert LibraryOdds(calibration, np.append(scores, 6).astype(np.float32)).presence > odds.presence


def test_videos_can_stand_for_others(calibration: Calibration) -> None:
    """A search among candidates reads the best videos and a sample of the rest."""
    scores, _ = drawn(1, 5000, 3)
    everything = LibraryOdds(calibration, scores[0])
    best = np.argsort(-scores[0])[:100]
    rest = np.setdiff1d(np.arange(5000), best)
    sample = np.random.default_rng(0).choice(rest, 400, replace=False)
    some = LibraryOdds(
        calibration, scores[0][np.append(best, sample)], np.append(np.ones(100), np.full(400, 4900 / 400))
    )
    assert some.presence == pytest.approx(everything.presence, abs=0.02)
    top = float(scores[0].max())
    assert some.right(top) == pytest.approx(everything.right(top), abs=0.02)


def test_it_survives_extremes(calibration: Calibration) -> None:
    for values in ([1e6], [-1e6], [0.0] * 3, [1e6, -1e6]):
        odds = LibraryOdds(calibration, np.array(values, np.float32))
        assert 0 <= odds.presence <= 1
        assert 0 <= odds.right(max(values)) <= 1
    separable = np.eye(30, dtype=np.float32)
    fitted = fit_calibration(separable, [[row] for row in range(30)])
    assert fitted is not None
    assert np.isfinite([fitted.match.slope, fitted.presence.slope, fitted.right.slope]).all()


def test_too_few_searches_fit_nothing() -> None:
    assert fit_calibration(*drawn(10, 60, 0)) is None


def test_it_is_kept_as_json(calibration: Calibration) -> None:
    assert Calibration.from_dict(calibration.to_dict()) == calibration
