"""What a search says about itself, from scores alone."""

from __future__ import annotations

import numpy as np
import pytest

from prvr.library import Presence
from prvr.library.search.confidence import Standing, chance_of_lead
from prvr.library.store.background import Background, background_of, best_by_video
from prvr.scoring import Calibration, fit_calibration

RNG = np.random.default_rng(0)
BACKGROUND = Background(np.sort(RNG.normal(0, 1, (200, 50)).max(1)).astype(np.float32))


def standing(scores: np.ndarray, **options: object) -> Standing:
    return Standing(scores.astype(np.float32), BACKGROUND, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("tail", ["normal", "exponential", "gumbel"])
@pytest.mark.parametrize("videos", [12, 50, 1000])
def test_unrelated_videos_seldom_stand_out(tail: str, videos: int) -> None:
    """At most one search in twenty, whatever the tail of its scores and the size of the library."""
    draws = getattr(RNG, tail)(size=(2000, videos)).astype(np.float32)
    leads = np.array([chance_of_lead(row) for row in draws], float)
    assert (leads < 0.05).mean() < 0.07
    assert 0.02 < (leads < 0.5).mean() < 0.6  # and it is no constant


def test_a_lead_stands_out_and_a_crowd_does_not() -> None:
    scores = RNG.normal(0, 1, 50)
    assert standing(np.append(scores, 9.0)).presence.word == "stands out"
    assert not standing(np.append(scores, [9.0, 8.9, 8.8, 8.7])).presence.confident
    assert standing(np.append(scores, [9.0, 9.0])).presence.word == "stands out"  # the same video twice
    assert standing(np.append(scores - 9, 0.0)).presence.word == "nothing stands out"  # other sentences score more


def test_where_nothing_can_be_said_nothing_is_said() -> None:
    scores = np.append(RNG.normal(0, 1, 50), 9.0)
    assert standing(scores[-5:]).presence == Presence()  # too few videos
    assert standing(scores, variations=np.zeros(3, np.float32)).presence == Presence()  # too few variations
    assert Standing(scores.astype(np.float32), Background(np.zeros(0, np.float32))).presence == Presence()
    assert standing(np.zeros(50)).presence == Presence()


def test_a_sentence_stands_out_among_its_variations() -> None:
    scores, others = np.array([0.2, 0.5]), np.linspace(0.1, 0.4, 20, dtype=np.float32)
    assert standing(scores, variations=others).presence.word == "stands out"
    assert standing(scores - 0.15, variations=others).presence.word == "maybe"
    assert standing(scores - 0.3, variations=others).presence.word == "nothing stands out"


def test_a_calibration_gives_probabilities_instead() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 1, (100, 40)).astype(np.float32)
    scores[np.arange(100), np.arange(100) % 40] += 3
    calibration = fit_calibration(scores, [[row % 40] for row in range(100)])
    assert isinstance(calibration, Calibration)
    found = standing(scores[0], calibration=calibration)
    assert found.presence.word is None
    assert 0 < (found.presence.probability or 0) < 1
    first, second = np.sort(scores[0])[::-1][:2]
    assert (found.confidence(float(first)) or 0) > (found.confidence(float(second)) or 0)
    assert standing(scores[0]).confidence(float(first)) is None


def test_background_is_the_same_in_parts_as_in_one() -> None:
    scores = RNG.normal(0, 0.1, (30, 100, 2)).astype(np.float32)  # 30 videos, 100 background sentences
    everything = np.ones(100, bool)
    whole = background_of([best_by_video(scores, np.arange(30), 0.0)], everything)
    pairs = np.stack([scores, scores - 1], 1).reshape(60, *scores.shape[1:])
    assert (best_by_video(pairs, np.arange(0, 60, 2), 0.0) == scores[..., 0]).all()  # a video is its best section
    parts = background_of([scores[:7, :, 0], scores[7:8, :, 0], scores[8:, :, 0]], everything)
    assert parts.best == pytest.approx(whole.best)
