"""The evidence of a hit over time, small enough for a card of the page."""

from __future__ import annotations

import numpy as np

from prvr.library import MomentEvidence

_STEPS = 48


def outline_of(evidence: MomentEvidence, *, trace: bool) -> list[float]:
    """The highest evidence in each step of the time. A step without a token has the value of the one before."""
    curve, spans = evidence.routed if trace else evidence.direct, evidence.spans
    steps = min(_STEPS, len(curve))
    share = spans.mean(1) / max(float(spans[:, 1].max()), 1e-6)
    places = np.minimum((share * steps).astype(np.int64), steps - 1)
    highest = np.full(steps, -np.inf)
    np.maximum.at(highest, places, curve)
    highest[0] = highest[0] if np.isfinite(highest[0]) else float(curve[0])
    filled = np.maximum.accumulate(np.where(np.isfinite(highest), np.arange(steps), 0))
    return [round(float(value), 4) for value in highest[filled]]
