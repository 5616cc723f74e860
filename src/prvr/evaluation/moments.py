"""Where in a video a query happens, read off an evidence curve.

Every stretch of frames is a candidate. Its score is how well it parts the curve in two: the mean inside minus the mean
outside, times √(n·(m − n))/m, which is Otsu's criterion with a sign. No length is preferred by hand and nothing is
learned. The next candidates are the best that overlap none before them by more than half.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OVERLAP = 0.5


def spans(curve: Floats, count: int = 5) -> Floats:
    """The best stretches of a curve (m,) as shares of the video's length, best first: (count or fewer, 2).

    >>> spans(np.array([0.1, 0.1, 0.9, 0.8, 0.1, 0.1, 0.1, 0.1]), count=1)
    array([[0.25, 0.5 ]])
    """
    frames = len(curve)
    start, stop = _stretches(frames)
    total = np.concatenate([[0.0], np.cumsum(curve)])
    inside, length = total[stop] - total[start], stop - start
    rest = np.maximum(frames - length, 1)
    contrast = inside / length - (total[-1] - inside) / rest
    score = contrast * np.sqrt(length * (frames - length))
    if frames == 1:
        return np.array([[0.0, 1.0]])
    found: list[int] = []
    while len(found) < count:
        best = int(score.argmax())
        if score[best] == -np.inf:
            break
        found.append(best)
        score = np.where(overlap(start, stop, start[best], stop[best]) > OVERLAP, -np.inf, score)
    return np.stack([start[found], stop[found]], 1) / frames


def overlap(start: Floats | Integers, stop: Floats | Integers, other_start: float, other_stop: float) -> Floats:
    """Intersection over union of stretches with one other.

    >>> overlap(np.array([0.0, 5.0]), np.array([4.0, 9.0]), 2.0, 4.0)
    array([0.5, 0. ])
    """
    shared = np.maximum(np.minimum(stop, other_stop) - np.maximum(start, other_start), 0)
    union = (stop - start) + (other_stop - other_start) - shared
    return np.divide(shared, union, out=np.zeros(len(shared)), where=union > 0)


def best_overlaps(curve: Floats, moment: tuple[float, float], ranks: tuple[int, ...] = (1, 5)) -> list[float]:
    """The best overlap with a moment (shares of the video's length) among the first 1 and the first 5 stretches."""
    found = spans(curve, max(ranks))
    overlaps = overlap(found[:, 0], found[:, 1], *moment)
    return [float(overlaps[:k].max()) for k in ranks]


@lru_cache(maxsize=256)
def _stretches(frames: int) -> tuple[Integers, Integers]:
    """Start and stop of every stretch but the whole, (N,) and (N,)."""
    start, last = np.triu_indices(frames)
    kept = last - start + 1 < max(frames, 2)
    return start[kept].astype(np.int64), last[kept].astype(np.int64) + 1
