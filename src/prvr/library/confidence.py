"""How much a score stands out: an empirical tail probability."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FEWEST = 20  # background sentences below which nothing can be said
FEWEST_VIDEOS = 20  # below which a query's own spread over videos means nothing
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Background:
    """What background sentences find in the same videos, each array sorted."""

    best: Floats  # (B,) the best score of each
    above: Floats = field(default_factory=lambda: np.zeros(0, np.float32))  # (B,) that, in deviations above its mean


@dataclass(frozen=True)
class Spread:
    """Mean and deviation of one query's scores over videos."""

    mean: float
    deviation: float

    @staticmethod
    def of(scores: Floats) -> Spread | None:
        """None where there are too few videos, or where all score the same."""
        deviation = float(scores.std()) if len(scores) >= FEWEST_VIDEOS else 0.0
        return Spread(float(scores.mean()), deviation) if deviation > 0 else None


def background_of(scores: NDArray[np.float32], owners: NDArray[np.int64], weight: float) -> Background:
    """From the scores of background sentences on sections, (S, B, 2), and whose sections they are, (S,)."""
    if scores.shape[0] == 0 or scores.shape[1] == 0:
        return Background(np.zeros(0, np.float32))
    _, videos = best_sections(scores, owners, weight)
    best = videos.max(0)
    if len(videos) < FEWEST_VIDEOS:
        return Background(np.sort(best))
    return Background(np.sort(best), np.sort((best - videos.mean(0)) / np.maximum(videos.std(0), 1e-9)))


def best_sections(
    scores: NDArray[np.float32], owners: NDArray[np.int64], weight: float
) -> tuple[NDArray[np.int64], Floats]:
    """Videos (V,) and what each sentence scores on each of them, (V, B), by its best section; from (S, B, 2)."""
    order = np.argsort(owners, kind="stable")
    ids, first = np.unique(owners[order], return_index=True)
    return ids, np.maximum.reduceat((scores[..., 0] + weight * scores[..., 1])[order], first, axis=0)


def confidence(score: float, background: Background, spread: Spread | None = None) -> float | None:
    """1 − the share of background sentences that find something at least as good; None where there are too few.

    As good is meant in two ways, and the larger share counts: as high a score, and as far above what the same sentence
    scores elsewhere (a sentence may score high everywhere). The second needs some videos to compare with. One is
    added on both sides, so that n sentences never claim more than n/(n + 1).

    >>> background = Background(np.linspace(0, 1, 99, dtype=np.float32))
    >>> confidence(0.5, background), confidence(2.0, background)
    (0.49, 0.99)
    """
    if len(background.best) < FEWEST:
        return None
    found = _tail(score, background.best)
    if spread is None or len(background.above) == 0:
        return found
    return min(found, _tail((score - spread.mean) / spread.deviation, background.above))


def _tail(value: float, others: Floats) -> float:
    as_good = len(others) - int(np.searchsorted(others, value, side="left"))
    return 1 - (1 + as_good) / (len(others) + 1)
