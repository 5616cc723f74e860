"""Cut moments out of a curve of evidence over time.

A moment grows from a peak to both sides while the evidence stays above a share of the peak's height over the median
of the curve. Further peaks become moments of their own if they are nearly as high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError

Curve = NDArray[np.float32]


@dataclass(frozen=True)
class MomentOptions:
    """How moments are cut out of the evidence."""

    keep: float = 0.7
    """a moment extends while the evidence keeps this share of the peak's height over the median"""
    other: float = 0.8
    """another moment needs a peak of at least this share of the highest"""
    merge: float = 1.0
    """moments that are at most this many seconds apart, after padding, become one"""
    pad: float = 0.0
    """seconds to add on both sides"""
    most: int = 5
    """most moments of one video"""

    def __post_init__(self) -> None:
        if not (0 < self.keep <= 1 and 0 < self.other <= 1):
            raise LibraryError(f"keep and other must be above 0 and at most 1, not {self.keep} and {self.other}")
        if not (0 <= self.merge < np.inf and 0 <= self.pad < np.inf and self.most >= 1):
            raise LibraryError("merge and pad must be at least 0 seconds, and most at least 1 moment")


@dataclass(frozen=True)
class FoundMoment:
    """A found moment: start and end in seconds, and the token where its evidence peaks."""

    start: float
    end: float
    peak: int


def find_moments(
    curve: Curve, spans: NDArray[np.float32], duration: float | None, options: MomentOptions
) -> list[FoundMoment]:
    """Find the moments of one video, highest peak first.

    Args:
        curve: (m,) evidence of each token, in order of time.
        spans: (m, 2) start and end of each token in seconds.
        duration: of the video; None if unknown.
        options: how moments are cut out.

    >>> curve = np.array([0.1, 0.1, 0.9, 0.8, 0.1, 0.1, 0.85], np.float32)
    >>> spans = np.array([(t, t + 1) for t in range(7)], np.float32)
    >>> [(found.start, found.end) for found in find_moments(curve, spans, 7.0, MomentOptions(pad=0.25))]
    [(1.75, 4.25), (5.75, 7.0)]
    """
    heights = curve.tolist()  # plain Python floats are faster to walk along one by one
    median, top = _median(curve), max(heights)
    taken = [False] * len(heights)
    high = (curve >= min(top, median + options.other * (top - median))).nonzero()[0].tolist()
    apart = options.merge + 2 * options.pad
    found: list[FoundMoment] = []
    for peak in sorted(high, key=heights.__getitem__, reverse=True):  # stable: the first of equal peaks wins
        if len(found) == options.most:
            break
        if taken[peak]:
            continue
        height = heights[peak]
        first, last = _grow(heights, peak, median + options.keep * (height - median), taken)
        taken[first : last + 1] = [True] * (last + 1 - first)
        end = float(spans[first : last + 1, 1].max())
        found = _merge(found, FoundMoment(float(spans[first, 0]), end, peak), apart)
    longest = duration if duration is not None else float(spans[:, 1].max())
    return [
        FoundMoment(
            max(0.0, each.start - options.pad), max(each.start, min(longest, each.end + options.pad)), each.peak
        )
        for each in found
    ]


def _median(curve: Curve) -> float:
    """``np.median`` of a short curve, without its overhead."""
    middle = len(curve) // 2
    if len(curve) % 2:
        return float(np.partition(curve, middle)[middle])
    low, high = np.partition(curve, (middle - 1, middle))[middle - 1 : middle + 1].tolist()
    return (low + high) / 2


def _grow(heights: list[float], peak: int, floor: float, taken: list[bool]) -> tuple[int, int]:
    first = last = peak
    while first > 0 and not taken[first - 1] and heights[first - 1] >= floor:
        first -= 1
    while last + 1 < len(heights) and not taken[last + 1] and heights[last + 1] >= floor:
        last += 1
    return first, last


def _merge(found: list[FoundMoment], fresh: FoundMoment, apart: float) -> list[FoundMoment]:
    """Merge a moment with all that are at most ``apart`` seconds away. ``found`` has the highest peak first."""
    touching = [each for each in found if fresh.start <= each.end + apart and each.start <= fresh.end + apart]
    if not touching:
        return [*found, fresh]
    start, end = min(each.start for each in [fresh, *touching]), max(each.end for each in [fresh, *touching])
    place = found.index(touching[0])
    others = [each for each in found if each not in touching]
    return [*others[:place], FoundMoment(start, end, touching[0].peak), *others[place:]]
