"""Moments that are cut out of a curve of evidence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from prvr.library import MomentOptions
from prvr.library.search.moments import find_moments


def found(curve: list[float], length: float, options: MomentOptions) -> list[tuple[float, float, int]]:
    """Moments in a curve whose tokens begin every second and last ``length`` seconds: start, end and peak."""
    begin = np.arange(len(curve), dtype=np.float32)
    spans = np.stack([begin, begin + length], 1)
    moments = find_moments(np.array(curve, np.float32), spans, float(spans[-1, 1]), options)
    return [(moment.start, moment.end, moment.peak) for moment in moments]


def test_a_moment_joins_all_that_it_touches() -> None:
    """The third peak lies between the first two: it makes one moment of all."""
    curve = [0.1, 0.1, 0.1, 0.9, 0.04, 0.86, 0.38, 0.9, 0.31, 0.1, 0.1, 0.1, 0.1]
    assert found(curve, 2.0, MomentOptions()) == [(3.0, 9.0, 3)]


def test_moments_of_a_video_are_apart() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        options = MomentOptions(merge=float(rng.choice([0, 1, 2])), pad=float(rng.choice([0, 0.5, 3])))
        moments = sorted(found(rng.random(rng.integers(5, 25)).tolist(), 2.0, options))
        for (_, end, _), (start, _, _) in pairwise(moments):
            assert start - end > options.merge


def test_padding_counts_before_moments_are_joined() -> None:
    curve = [0.0, 0.0, 0.9, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0]
    assert found(curve, 1.0, MomentOptions(merge=1.0, pad=0.4)) == [(1.6, 3.4, 2), (4.6, 6.4, 5)]
    assert found(curve, 1.0, MomentOptions(merge=1.0, pad=0.5)) == [(1.5, 6.5, 2)]
    assert found(curve, 1.0, MomentOptions(merge=0.0, pad=0.9)) == [(1.1, 3.9, 2), (4.1, 6.9, 5)]
