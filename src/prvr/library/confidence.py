"""How much a score stands out: an empirical tail probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 20  # background sentences below which nothing can be said


def best_of_background(background: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """What each background sentence's best score is: (S, B, 2) → (B,), sorted."""
    if background.shape[0] == 0 or background.shape[1] == 0:
        return np.zeros(0, np.float32)
    return np.sort((background[..., 0] + weight * background[..., 1]).max(0))


def confidence(score: float, background: NDArray[np.float32]) -> float | None:
    """1 − the share of background sentences that find something at least as good; None where there are too few.

    One is added on both sides, so that n sentences never claim more than n/(n + 1).

    >>> background = np.linspace(0, 1, 99, dtype=np.float32)
    >>> confidence(0.5, background), confidence(2.0, background)
    (0.49, 0.99)
    """
    if len(background) < FEWEST:
        return None
    as_good = len(background) - int(np.searchsorted(background, score, side="left"))
    return 1 - (1 + as_good) / (len(background) + 1)
