"""Moments found from evidence curves, and their overlap with annotated moments.

Every stretch of frames is a candidate. Its score is how well it splits the curve in two: the mean inside minus the mean
outside, times √(n·(m − n))/m, which is Otsu's criterion with a sign. No length is preferred by hand and nothing is
learned. The next candidates are the best that overlap none before them by more than half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from prvr.data import Dataset
from prvr.trace import temporal_iou

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OVERLAP = 0.5
RANKS = (1, 5)


def curve_stretches(curve: Floats, count: int = 5) -> Floats:
    """The best stretches of a curve (m,) as shares of the video's length, best first: (count or fewer, 2).

    >>> curve_stretches(np.array([0.1, 0.1, 0.9, 0.8, 0.1, 0.1, 0.1, 0.1]), count=1)
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
        score = np.where(temporal_iou(start, stop, start[best], stop[best]) > OVERLAP, -np.inf, score)
    return np.stack([start[found], stop[found]], 1) / frames


def best_overlaps(curve: Floats, windows: ArrayLike, ranks: tuple[int, ...] = (1, 5)) -> list[float]:
    """The best overlap with a moment among the first 1 and the first 5 stretches of a curve (m,).

    ``windows`` are the starts and ends of the moment as shares of the video's length, (W, 2); the best of them counts.
    """
    found = curve_stretches(curve, max(ranks))[:, None]  # (N, 1, 2)
    overlaps = temporal_iou(found[..., 0], found[..., 1], *np.asarray(windows).T).max(1)
    return [float(overlaps[:k].max()) for k in ranks]


@lru_cache(maxsize=256)
def _stretches(frames: int) -> tuple[Integers, Integers]:
    """Start and stop of every stretch but the whole, (N,) and (N,)."""
    start, last = np.triu_indices(frames)
    kept = last - start + 1 < max(frames, 2)
    return start[kept].astype(np.int64), last[kept].astype(np.int64) + 1


@dataclass(frozen=True)
class MomentOverlaps:
    """Per curve, the best overlap among its first 1 and first 5 stretches, (N, 2), over N queries with a moment.

    ``whole`` is the answer "the whole video".
    """

    rows: tuple[int, ...]  # which queries
    of: Mapping[str, Floats]


def moment_overlaps(dataset: Dataset, curves: Mapping[str, Tensor]) -> MomentOverlaps:
    """Curves (Q, M) with −∞ on padding; queries without a usable moment are left out."""
    known = dataset.moments or {}
    rows: list[int] = []
    shares: list[Floats] = []  # (W, 2) each
    for row, caption in enumerate(dataset.captions):
        moment = known.get(caption.id)
        if moment is not None and moment.duration > 0 and moment.seconds > 0:
            rows.append(row)
            shares.append(np.array(moment.windows, dtype=np.float64) / moment.duration)
    if not rows or not curves:
        return MomentOverlaps((), {})
    found: dict[str, Floats] = {}
    for name, curve in curves.items():
        lines = curve.double().numpy()[rows]
        pairs = zip(lines, shares, strict=True)
        found[name] = np.array([best_overlaps(line[np.isfinite(line)], share, RANKS) for line, share in pairs])
    whole = np.array([temporal_iou(share[:, 0], share[:, 1], 0.0, 1.0).max() for share in shares])
    return MomentOverlaps(tuple(rows), {**found, "whole": np.stack([whole] * len(RANKS), 1)})


def known_times(dataset: Dataset, query: int, video: int) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """A video's length in seconds, None where it is not known, and the windows of it in which a query happens."""
    name, moments = dataset.video_ids[video], dataset.moments or {}
    moment = moments.get(dataset.captions[query].id)
    length = next((m.duration for m in moments.values() if m.video == name), None)
    return length, moment.windows if moment is not None and moment.video == name else ()
