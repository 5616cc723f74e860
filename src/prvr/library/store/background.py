"""What background sentences score on the sections of a library.

Background sentences are what people commonly type, about nothing in particular. Every section stores how they score
on it, so a search can tell whether a query finds more than any other sentence would.
"""

from __future__ import annotations

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


def background_of(
    scores: NDArray[np.float32], owners: NDArray[np.int64], weight: float, understood: NDArray[np.bool_]
) -> Background:
    """Summarise what background sentences score on some sections.

    Args:
        scores: (S, B, 2), base score and TRACE evidence of each sentence on each section.
        owners: (S,), the video of each section.
        weight: λ, the share of the evidence in the score.
        understood: (B,), the sentences to use.
    """
    if len(scores) == 0 or not understood.any():
        return Background(np.zeros(0, np.float32))
    _, by_video = best_by_video(scores, owners, weight)
    best = by_video.max(0)[understood]
    if len(by_video) < FEWEST_VIDEOS:
        return Background(np.sort(best))
    mean, deviation = (values[understood] for values in mean_and_deviation(by_video))
    margin = (best - mean) / np.maximum(deviation, LEAST_DEVIATION)
    return Background(np.sort(best), np.sort(margin.astype(np.float32)))


def best_by_video(
    scores: NDArray[np.float32], owners: NDArray[np.int64], weight: float
) -> tuple[NDArray[np.int64], Floats]:
    """Videos (V,), and the score of each sentence on the best section of each video, (V, B), from (S, B, 2)."""
    order = np.argsort(owners, kind="stable")
    videos, first = np.unique(owners[order], return_index=True)
    return videos, np.maximum.reduceat((scores[..., 0] + weight * scores[..., 1])[order], first, axis=0)


def mean_and_deviation(values: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Over the first axis, in double precision: sums of many single floats lose digits."""
    mean = values.mean(0, dtype=np.float64)
    return mean, np.sqrt(np.square(values - mean, dtype=np.float64).sum(0) / len(values))
