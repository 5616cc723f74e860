"""Moments found from evidence curves, and their overlap with annotated moments.

Every stretch of frames is a candidate. Its score is how well it splits the curve in two: the mean inside minus the mean
outside, times √(n·(m − n))/m, which is Otsu's criterion with a sign. No length is preferred by hand and nothing is
learned. The next candidates are the best that overlap none before them by more than half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from prvr.data import Dataset
from prvr.trace import temporal_iou

Floats = NDArray[np.float64]

RANKS = (1, 5)
IOU_TOLERANCE = 1e-6  # an overlap of exactly t may come out a little below t
_NEVER = -1e30  # the score of what is no candidate


@dataclass(frozen=True)
class Stretches:
    """The best stretches of N curves over m frames, best first; (N, K) each."""

    start: Tensor  # first frame
    stop: Tensor  # the frame behind the last one
    score: Tensor  # −∞ where a curve has fewer stretches


def best_stretches(curves: Tensor, count: int) -> Stretches:
    """The best ``count`` stretches of curves (N, m) of one length.

    All pairs of start and stop are scored at once, (N, m, m): take few curves at a time.
    """
    frames = curves.shape[1]
    if frames == 1:
        whole = torch.zeros(len(curves), 1, dtype=torch.long, device=curves.device)
        return Stretches(whole, whole + 1, whole.to(curves.dtype))
    place = torch.arange(frames, device=curves.device, dtype=curves.dtype)
    length = place + 1 - place[:, None]  # (start, last)
    inner = length.clamp(1, frames - 1)
    weight = (inner * (frames - inner)).sqrt() / frames
    gain, loss = weight * (1 / inner + 1 / (frames - inner)), weight / (frames - inner)
    total = F.pad(curves.cumsum(1), (1, 0))
    score = (total[:, None, 1:] - total[:, :-1, None]).mul_(gain).sub_(total[:, -1, None, None] * loss)
    score += ((length < 1) | (length == frames)) * _NEVER
    found = []
    for number in range(count):
        start = score.amax(2).argmax(1)  # in two steps, and with sums for masks: several times as fast on a CPU
        best, last = score[torch.arange(len(score)), start].max(1)
        found.append((start, last + 1, best.masked_fill(best < _NEVER / 2, -torch.inf)))
        if number + 1 < count:  # leave out what overlaps by more than half: 3 · shared > the sum of both lengths
            right = 3 * torch.minimum(place, last[:, None]) - place + 2
            left = 3 * torch.maximum(place, start[:, None]) - place + (last - start + 1)[:, None]
            score.add_((right[:, None] - left[:, :, None]).clamp_(0, 1), alpha=_NEVER)
    start, stop, value = (torch.stack(part, 1) for part in zip(*found, strict=True))
    return Stretches(start, stop, value)


def curve_stretches(curve: Floats, count: int = 5) -> Floats:
    """The best stretches of a curve (m,) as shares of the video's length, best first: (count or fewer, 2).

    >>> curve_stretches(np.array([0.1, 0.1, 0.9, 0.8, 0.1, 0.1, 0.1, 0.1]), count=1)
    array([[0.25, 0.5 ]])
    """
    found = best_stretches(torch.from_numpy(curve)[None], count)
    kept = found.score[0] > -torch.inf
    return torch.stack([found.start[0, kept], found.stop[0, kept]], 1).double().numpy() / len(curve)


def best_overlaps(curve: Floats, windows: ArrayLike, ranks: tuple[int, ...] = (1, 5)) -> list[float]:
    """The best overlap with a moment among the first 1 and the first 5 stretches of a curve (m,).

    ``windows`` are the starts and ends of the moment as shares of the video's length, (W, 2); the best of them counts.
    """
    found = curve_stretches(curve, max(ranks))[:, None]  # (N, 1, 2)
    overlaps = temporal_iou(found[..., 0], found[..., 1], *np.asarray(windows).T).max(1)
    return [float(overlaps[:k].max()) for k in ranks]


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
