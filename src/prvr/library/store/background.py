"""What background sentences score on the sections of a library.

Background sentences are what people commonly type, about nothing in particular. Every section stores how they score
on it, so a search can tell whether a query finds more than any other sentence would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FEWEST_VIDEOS = 20  # with fewer videos the spread of a sentence's scores means nothing
LEAST_DEVIATION = 1e-9  # scores that vary less are all the same
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Background:
    """What background sentences score on some videos. Each array is sorted."""

    best: Floats  # (B,) each sentence's best score
    margin: Floats = field(default_factory=lambda: np.zeros(0, np.float32))  # (B,) in deviations above its mean


def background_of(parts: Iterable[Floats], understood: NDArray[np.bool_]) -> Background:
    """Summarise what background sentences score on some videos.

    Args:
        parts: each (v, B), the scores of all sentences on some of the videos.
        understood: (B,), the sentences to use.
    """
    count, best = 0, np.zeros(0, np.float32)
    mean = squares = np.zeros(0)  # of all videos so far; squares: sums of squared distances from the mean
    for scores in parts:
        of_part, deviation = mean_and_deviation(scores)
        if count == 0:
            count, best, mean, squares = len(scores), scores.max(0), of_part, len(scores) * np.square(deviation)
            continue
        total, step = count + len(scores), of_part - mean
        squares = squares + len(scores) * (np.square(deviation) + np.square(step) * (count / total))
        mean = mean + step * (len(scores) / total)
        count, best = total, np.maximum(best, scores.max(0))
    if count == 0 or not understood.any():
        return Background(np.zeros(0, np.float32))
    best = best[understood]
    if count < FEWEST_VIDEOS:
        return Background(np.sort(best))
    margin = (best - mean[understood]) / np.maximum(np.sqrt(squares[understood] / count), LEAST_DEVIATION)
    return Background(np.sort(best), np.sort(margin.astype(np.float32)))


def best_by_video(scores: NDArray[np.float32], starts: NDArray[np.int64], weight: float) -> Floats:
    """The score of each sentence on the best section of each video, (n, B, 2) → (v, B).

    Args:
        scores: base score and TRACE evidence of each sentence on each section; those of a video are neighbours.
        starts: (v,), where the sections of each video begin.
        weight: λ, the share of the evidence in the score.
    """
    best: Floats = np.maximum.reduceat(scores[..., 0] + weight * scores[..., 1], starts, axis=0)
    return best


def mean_and_deviation(values: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Over the first axis, in double precision: sums of many single floats lose digits."""
    mean = values.mean(0, dtype=np.float64)
    return mean, np.sqrt(np.square(values - mean, dtype=np.float64).sum(0) / len(values))
