"""Resamples a video's raw frames to 32 clips and at most 128 frames, each row of (almost) unit length.

Segment ``i`` of ``k`` starts at ``min(round(i·n/k), n−1)``, halves rounded to even, and ends before the next start;
an empty segment is the single frame at its start. The last edge is ``n−1``, not ``n``, so the last frame is left
out as soon as ``n ≥ 1.5·k``. This is a quirk of the published features, kept because every published model was trained
with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

NORM_FLOOR = 1e-5  # added to every norm, so rows come out slightly shorter than 1


def segment_edges(frames: int, segments: int) -> NDArray[np.intp]:
    """Where each of ``segments`` equal stretches starts, and the last edge, (segments + 1,).

    >>> segment_edges(5, 2).tolist()
    [0, 2, 4]
    """
    # i·n/k is a correctly rounded quotient of exact integers, so it is a half only where the true value is one.
    return np.minimum(np.rint(np.arange(segments + 1) * frames / segments), frames - 1).astype(np.intp)


def segment_mean(features: Array, segments: int) -> Array:
    """Mean of each of ``segments`` equal stretches, (n, D) -> (segments, D).

    >>> segment_mean(np.array([[0.0], [2.0], [4.0], [6.0]], dtype=np.float32), 2).tolist()
    [[1.0], [4.0]]
    """
    edges = segment_edges(len(features), segments)
    # reduceat has the empty-segment rule built in: where an edge does not grow, it returns that single row.
    sums = np.add.reduceat(features, edges, axis=0)[:-1]
    counts = np.maximum(np.diff(edges), 1)
    return (sums / counts[:, None]).astype(np.float32)


def sample_clips(features: Array, clips: int = 32) -> Array:
    """Always resampled: a short video repeats frames, (n, D) -> (clips, D)."""
    return segment_mean(features, clips)


def sample_frames(features: Array, frames: int = 128) -> Array:
    """Resampled only where there are too many, (n, D) -> (min(n, frames), D)."""
    return segment_mean(features, frames) if len(features) > frames else features


def normalise_rows(features: Array) -> Array:
    """Each row divided by its length plus 1e-5, (n, D) -> (n, D).

    >>> normalise_rows(np.array([[3.0, 4.0]], dtype=np.float32)).round(4).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    norms = np.sqrt(np.einsum("nd,nd->n", features, features))
    rows: Array = features / (norms + np.float32(NORM_FLOOR))[:, None]
    return rows
