"""Known moments against the stretches that evidence curves point to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation.moments import Floats, best_overlaps, overlap

RANKS = (1, 5)


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
    rows, shares = [], []
    for row, caption in enumerate(dataset.captions):
        moment = known.get(caption.id)
        if moment is not None and moment.duration > 0 and moment.end > moment.start:
            rows.append(row)
            shares.append((moment.start / moment.duration, moment.end / moment.duration))
    if not rows or not curves:
        return MomentOverlaps((), {})
    found: dict[str, Floats] = {}
    for name, curve in curves.items():
        lines = curve.double().numpy()[rows]
        pairs = zip(lines, shares, strict=True)
        found[name] = np.array([best_overlaps(line[np.isfinite(line)], share, RANKS) for line, share in pairs])
    starts, stops = np.array(shares).T
    whole = overlap(starts, stops, 0.0, 1.0)
    return MomentOverlaps(tuple(rows), {**found, "whole": np.stack([whole] * len(RANKS), 1)})


def known_times(dataset: Dataset, query: int, video: int) -> tuple[float | None, tuple[float, float] | None]:
    """A video's length in seconds, and where in it a query happens; None where that is not known."""
    name, moments = dataset.video_ids[video], dataset.moments or {}
    moment = moments.get(dataset.captions[query].id)
    span = (moment.start, moment.end) if moment is not None and moment.video == name else None
    length = next((m.duration for m in moments.values() if m.video == name), None)
    return length, span
