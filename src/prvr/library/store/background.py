"""What background sentences score on the sections of a library.

Background sentences are what people commonly type, about nothing in particular. Every section stores how they score
on it, so a search can tell whether a query finds more than any other sentence would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Background:
    """What background sentences score on the videos of a library."""

    best: Floats  # (B,) each sentence's best score, sorted


def background_of(parts: Iterable[Floats], understood: NDArray[np.bool_]) -> Background:
    """Summarise what background sentences score.

    Args:
        parts: each (v, B), the scores of all sentences on some of the videos.
        understood: (B,), the sentences to use.
    """
    best: Floats | None = None
    for scores in parts:
        best = scores.max(0) if best is None else np.maximum(best, scores.max(0))
    return Background(np.zeros(0, np.float32) if best is None else np.sort(best[understood]))


def best_by_video(scores: NDArray[np.float32], starts: NDArray[np.int64], weight: float) -> Floats:
    """The score of each sentence on the best section of each video, (n, B, 2) → (v, B).

    Args:
        scores: base score and TRACE evidence of each sentence on each section; those of a video are neighbours.
        starts: (v,), where the sections of each video begin.
        weight: λ, the share of the evidence in the score.
    """
    best: Floats = np.maximum.reduceat(scores[..., 0] + weight * scores[..., 1], starts, axis=0)
    return best
