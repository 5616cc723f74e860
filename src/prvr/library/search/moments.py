"""From a curve of evidence over time to moments: pure functions.

A moment grows from a peak to both sides as long as the evidence stays above a share of the peak's height over the
video's usual level (the curve's median). Further peaks become moments of their own if they are nearly as high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError

Curve = NDArray[np.float32]


@dataclass(frozen=True)
class MomentOptions:
    """How moments are cut out."""

    keep: float = 0.7
    """a moment reaches as far as evidence keeps this share of its peak's height over the usual level"""
    other: float = 0.8
    """a further moment needs this share of the highest peak"""
    merge: float = 1.0
    """moments this many seconds apart are one"""
    pad: float = 0.0
    """seconds that are added on both sides"""
    most: int = 5
    """moments of one video at most"""

    def __post_init__(self) -> None:
        if not (0 < self.keep <= 1 and 0 < self.other <= 1):
            raise LibraryError(f"keep and other are shares above 0 and up to 1, not {self.keep} and {self.other}")
        if not (0 <= self.merge < np.inf and 0 <= self.pad < np.inf and self.most >= 1):
            raise LibraryError("merge and pad are seconds from 0 on, and a video has at least 1 moment")


@dataclass(frozen=True)
class Stretch:
    """A moment: seconds, and the token where its evidence peaks."""

    start: float
    end: float
    peak: int


def find_stretches(
    curve: Curve, spans: NDArray[np.float32], duration: float | None, options: MomentOptions
) -> list[Stretch]:
    """Moments of one video, highest peak first: (m,) evidence, (m, 2) seconds of each token, in order of time.

    >>> curve = np.array([0.1, 0.1, 0.9, 0.8, 0.1, 0.1, 0.85], np.float32)
    >>> spans = np.array([(t, t + 1) for t in range(7)], np.float32)
    >>> [(found.start, found.end) for found in find_stretches(curve, spans, 7.0, MomentOptions(pad=0.5))]
    [(1.5, 4.5), (5.5, 7.0)]
    """
    heights = curve.tolist()  # Python's own numbers: a curve is walked along step by step
    level, top = _median(curve), max(heights)
    taken = [False] * len(heights)
    high = (curve >= min(top, level + options.other * (top - level))).nonzero()[0].tolist()
    found: list[Stretch] = []
    for peak in sorted(high, key=heights.__getitem__, reverse=True):  # stable: of equal peaks the first
        if len(found) == options.most:
            break
        if taken[peak]:
            continue
        height = heights[peak]
        first, last = _grown(heights, peak, level + options.keep * (height - level), taken)
        taken[first : last + 1] = [True] * (last + 1 - first)
        end = float(spans[first : last + 1, 1].max())
        found = _with(found, Stretch(float(spans[first, 0]), end, peak), options.merge)
    longest = duration if duration is not None else float(spans[:, 1].max())
    return [
        Stretch(max(0.0, each.start - options.pad), max(each.start, min(longest, each.end + options.pad)), each.peak)
        for each in found
    ]


def overlap(start: float, end: float, true_start: float, true_end: float) -> float:
    """Intersection over union of a moment with the true one.

    >>> overlap(1.0, 4.0, 2.0, 6.0)
    0.4
    """
    shared = max(0.0, min(end, true_end) - max(start, true_start))
    return shared / max(1e-9, max(end, true_end) - min(start, true_start))


def _median(curve: Curve) -> float:
    """``np.median``, without the care it takes of arrays of any shape."""
    middle = len(curve) // 2
    if len(curve) % 2:
        return float(np.partition(curve, middle)[middle])
    low, high = np.partition(curve, (middle - 1, middle))[middle - 1 : middle + 1].tolist()
    return (low + high) / 2


def _grown(heights: list[float], peak: int, floor: float, taken: list[bool]) -> tuple[int, int]:
    first = last = peak
    while first > 0 and not taken[first - 1] and heights[first - 1] >= floor:
        first -= 1
    while last + 1 < len(heights) and not taken[last + 1] and heights[last + 1] >= floor:
        last += 1
    return first, last


def _with(found: list[Stretch], fresh: Stretch, merge: float) -> list[Stretch]:
    """Join a moment to the one it touches, whose peak is higher; else it is a further one."""
    for place, each in enumerate(found):
        if fresh.start <= each.end + merge and each.start <= fresh.end + merge:
            joined = Stretch(min(each.start, fresh.start), max(each.end, fresh.end), each.peak)
            return [*found[:place], joined, *found[place + 1 :]]
    return [*found, fresh]
