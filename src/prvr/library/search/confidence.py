"""How much a score stands out: a tail probability against background sentences.

Background sentences are what people commonly type, about nothing in particular. Every section stores how they score
on it. A query is as confident as the share of them that find nothing as good in the same videos.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prvr.library.store.background import FEWEST_VIDEOS, LEAST_DEVIATION, Background, Floats, mean_and_deviation

CONFIDENT = 0.9  # below this a search says that nothing stands out
FEWEST_SENTENCES = 20  # with fewer background sentences nothing can be said


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of one query's scores over videos."""

    mean: float
    deviation: float

    @staticmethod
    def of(scores: Floats) -> Spread | None:
        """Of scores (V,); None if there are too few videos, or if all score the same."""
        if len(scores) < FEWEST_VIDEOS:
            return None
        mean, deviation = mean_and_deviation(scores)
        return Spread(float(mean), float(deviation)) if deviation > LEAST_DEVIATION else None


def confidence(score: float, background: Background, spread: Spread | None = None) -> float | None:
    """1 − the share of background sentences that find something at least as good; None if there are too few.

    "As good" is measured twice, and the larger share counts: by the score itself, and by how far it lies above what
    the same sentence scores elsewhere (some sentences score high everywhere). The second needs enough videos to
    compare with. One is added to both counts, so n sentences never claim more than n/(n + 1).

    >>> background = Background(np.linspace(0, 1, 99, dtype=np.float32))
    >>> confidence(0.5, background), confidence(2.0, background)
    (0.49, 0.99)
    """
    if len(background.best) < FEWEST_SENTENCES:
        return None
    by_score = _tail(score, background.best)
    if spread is None or len(background.margin) == 0:
        return by_score
    return min(by_score, _tail((score - spread.mean) / spread.deviation, background.margin))


def _tail(value: float, others: Floats) -> float:
    as_good = len(others) - int(np.searchsorted(others, value, side="left"))
    return 1 - (1 + as_good) / (len(others) + 1)
