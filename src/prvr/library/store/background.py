"""What background sentences score on the sections of a library.

Background sentences are what people commonly type, about nothing in particular. Every section stores how they score
on it, so a search can tell whether a query finds more than any other sentence would, and how much of a video's score is
owed to the video itself: a *hub* scores high with everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_TEMPERATURE = 0.1  # of the soft maximum


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


def soft_best(scores: Floats) -> Floats:
    """What each video scores with everybody: a soft maximum over sentences, (v, B) → (v,).

    >>> [f"{found:.2f}" for found in soft_best(np.array([[0.3, 0.3], [0.3, -0.9]], np.float32))]
    ['0.30', '0.23']
    """
    best = scores.max(1, keepdims=True)
    found: Floats = best[:, 0] + _TEMPERATURE * np.log(np.exp((scores - best) / _TEMPERATURE).mean(1))
    return found


def best_by_video(scores: NDArray[np.float32], starts: NDArray[np.int64], weight: float) -> Floats:
    """The score of each sentence on the best section of each video, (n, B, 2) → (v, B).

    Args:
        scores: base score and TRACE evidence of each sentence on each section; those of a video are neighbours.
        starts: (v,), where the sections of each video begin.
        weight: λ, the share of the evidence in the score.
    """
    best: Floats = np.maximum.reduceat(scores[..., 0] + weight * scores[..., 1], starts, axis=0)
    return best
