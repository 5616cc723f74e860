"""A verdict is given only where it was found to mean something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prvr.trace import Peaked, Share, VerdictScale, why_this_one


def scale(tells: float, answers: int = 600) -> VerdictScale:
    """``tells``: how much a lift of one deviation raises the chance of being right."""
    rng = np.random.default_rng(0)
    lifts = rng.normal(0, 1, answers)
    found = VerdictScale.fit(lifts, rng.random(answers) < np.clip(0.5 + tells * lifts, 0, 1))
    assert found is not None
    return found


def test_support_that_tells_gives_three_words() -> None:
    found = scale(0.15)
    assert found.sure
    assert [found.verdict(lift) for lift in (found.high, (found.low + found.high) / 2, found.low - 0.1)] == [
        "supported",
        "weakly supported",
        "unsupported",
    ]
    assert VerdictScale.from_dict(found.to_dict()) == found


def test_support_that_says_nothing_gives_no_verdict() -> None:
    assert scale(0.0).verdict(5.0) is None
    assert scale(-0.2).verdict(5.0) is None  # supported answers are right less often
    assert scale(0.02, answers=30).verdict(5.0) is None  # too few to be sure
    assert VerdictScale.fit(np.zeros(10), np.ones(10, bool)) is None


def test_intervals_are_those_of_the_books() -> None:
    """Wilson's interval of 81 of 263, and Newcombe's of 56/70 − 48/80 (both from Newcombe, 1998)."""
    low, high = Share(81, 263).interval
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    low, high = VerdictScale(0, 1, Share(56, 70), Share(48, 80)).difference
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


@dataclass(frozen=True)
class Curves(Peaked):
    direct: NDArray[np.float32]
    expected_support: NDArray[np.float32]
    routed: NDArray[np.float32]


def test_the_words_follow_the_curves() -> None:
    spans = np.array([(0, 2), (2, 4), (60, 62)], np.float32)
    direct, support = np.array([0.1, 0.9, 0.3], np.float32), np.array([0.2, 0.5, 0.2], np.float32)
    same = Curves(direct, support, direct)
    assert round(same.support_lift, 3) == 0.2
    assert why_this_one(same, spans, None) == "What you describe is closest to 0:02.0–0:04.0."
    assert why_this_one(same, spans, "unsupported").endswith("The rest of the video does not support it.")
    moved = Curves(direct, support, np.array([0.1, 0.2, 0.9], np.float32))
    assert "1:00.0–1:02.0 is stronger" in why_this_one(moved, spans, None)
