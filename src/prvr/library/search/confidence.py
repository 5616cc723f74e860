"""How much a score stands out: an empirical tail probability.

Whatever is needed of many videos is a sum or a maximum over them (``Moments``, ``Heard``), so that those of two parts
of a library make those of both, and no part need tell its scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FEWEST = 20  # background sentences below which nothing can be said
FEWEST_VIDEOS = 20  # below which a query's own spread over videos means nothing
_LEAST = 1e-9  # deviation of scores below which they are all the same
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Moments:
    """How many numbers there are, their mean, and the sum of their squared distances from it, (…,) each."""

    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @staticmethod
    def of(values: Floats) -> Moments:
        """Of (n, …) numbers, in double precision: sums of many single floats lose digits."""
        if len(values) == 0:
            return Moments(0, np.zeros(values.shape[1:]), np.zeros(values.shape[1:]))
        mean = values.mean(0, dtype=np.float64)
        return Moments(len(values), mean, np.square(values - mean, dtype=np.float64).sum(0))

    @staticmethod
    def joined(parts: Sequence[Moments]) -> Moments:
        """Of all numbers together.

        >>> one, other = (Moments.of(np.array(some, np.float32)) for some in ([1, 2], [3, 6]))
        >>> both = Moments.joined([one, other])
        >>> both.count, float(both.mean), float(both.squares)
        (4, 3.0, 14.0)
        """
        found = parts[0]
        for part in parts[1:]:
            count = max(1, found.count + part.count)
            apart = part.mean - found.mean
            found = Moments(
                found.count + part.count,
                found.mean + apart * (part.count / count),
                found.squares + part.squares + np.square(apart) * (found.count * part.count / count),
            )
        return found

    @property
    def deviation(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.sqrt(self.squares / max(1, self.count))
        return found


@dataclass(frozen=True)
class Background:
    """What background sentences find in the same videos, each array sorted."""

    best: Floats  # (B,) the best score of each
    above: Floats = field(default_factory=lambda: np.zeros(0, np.float32))  # (B,) that, in deviations above its mean


@dataclass(frozen=True)
class Heard:
    """What each background sentence scores on some videos: a part of a ``Background``."""

    understood: NDArray[np.bool_]  # (B,) sentences of which the encoder understands something
    best: Floats  # (B,) the best score of each; −∞ where there is no video
    videos: Moments  # (B,) of their scores on videos

    @staticmethod
    def of(scores: NDArray[np.float32], owners: NDArray[np.int64], weight: float) -> Heard:
        """From scores on sections, (S, B, 2), and whose sections they are, (S,)."""
        understood = (scores[..., 0] != 0).any(0)
        if len(scores) == 0:
            return Heard(understood, np.full(scores.shape[1], -np.inf, np.float32), Moments.of(scores[..., 0]))
        _, videos = best_sections(scores, owners, weight)
        return Heard(understood, videos.max(0), Moments.of(videos))

    @staticmethod
    def joined(parts: Sequence[Heard]) -> Heard:
        """By all parts of a library together."""
        return Heard(
            np.logical_or.reduce([part.understood for part in parts]),
            np.maximum.reduce([part.best for part in parts]),
            Moments.joined([part.videos for part in parts]),
        )

    @cached_property
    def background(self) -> Background:
        known = self.understood
        if self.videos.count == 0 or not known.any():
            return Background(np.zeros(0, np.float32))
        best = self.best[known]
        if self.videos.count < FEWEST_VIDEOS:
            return Background(np.sort(best))
        above = (best - self.videos.mean[known]) / np.maximum(self.videos.deviation[known], _LEAST)
        return Background(np.sort(best), np.sort(above.astype(np.float32)))


@dataclass(frozen=True)
class Spread:
    """Mean and deviation of one query's scores over videos."""

    mean: float
    deviation: float

    @staticmethod
    def of(videos: Moments) -> Spread | None:
        """None where there are too few videos, or where all score the same."""
        deviation = float(videos.deviation) if videos.count >= FEWEST_VIDEOS else 0.0
        return Spread(float(videos.mean), deviation) if deviation > _LEAST else None


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
