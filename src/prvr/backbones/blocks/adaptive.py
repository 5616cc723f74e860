"""Adaptive, propagated moments: a video is cut where its features change direction, at several time scales.

Reading order: ``adaptive_moments`` (a whole video), ``_chapter`` (the recipe's six steps), the functions it calls.
Nothing here is trained or depends on a query, so it happens once, when a video is indexed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.blocks.wavelets import details

_STILL = 1e-4  # a shorter step between unit vectors does not count as a change
_ROUNDING = 1e-5  # of a detail's magnitude


class Moments(NamedTuple):
    """Stretches of a video, in order, that cover it: frames ``spans[i, 0] … spans[i, 1]`` (end excluded)."""

    vectors: Tensor  # (m, D)
    spans: Tensor  # (m, 2) int64


def adaptive_moments(frames: Tensor, propagation: float = 0.7, chapter: int = 1024, overlap: int = 128) -> Moments:
    """Moments of one video's frame features, (n, D).

    Long videos are processed in chapters that include ``overlap`` frames of their neighbours, so cost grows linearly.

    >>> scene = torch.eye(4).repeat_interleave(16, 0)  # four scenes of sixteen frames
    >>> {16, 32, 48} <= set(adaptive_moments(scene).spans[:, 0].tolist())  # cut where they change, and finer
    True
    """
    unit = F.normalize(frames.float(), dim=-1)
    count = len(unit)
    if count <= chapter + 2 * overlap:
        return _chapter(unit, propagation)
    vectors, spans = [], []
    for start in range(0, count, chapter):
        end = min(count, start + chapter)
        first, last = max(0, start - overlap), min(count, end + overlap)
        found = _chapter(unit[first:last], propagation)
        own = (found.spans + first).clamp(start, end)
        kept = own[:, 1] > own[:, 0]
        vectors.append(found.vectors[kept])
        spans.append(own[kept])
    return Moments(torch.cat(vectors), torch.cat(spans))


def _chapter(unit: Tensor, propagation: float) -> Moments:
    edges = boundaries(change_signal(unit), len(unit))
    segments = torch.cat([torch.stack([e[:-1], e[1:]], 1) for e in edges])  # (S, 2), level by level
    level = torch.cat([torch.full((len(e) - 1,), i, device=unit.device) for i, e in enumerate(edges)])  # (S,)
    vectors = F.normalize(_means(unit, segments), dim=-1)
    spread = propagate(vectors, graph(vectors, segments, level), propagation)
    cuts = _distinct(torch.cat(edges), len(unit))
    spans = torch.stack([cuts[:-1], cuts[1:]], 1)
    offset, covering = 0, []
    for e in edges:
        covering.append(offset + torch.searchsorted(e, spans[:, 0].contiguous(), right=True) - 1)
        offset += len(e) - 1
    return Moments(spread[torch.stack(covering)].mean(0), spans)  # lengths are kept: they show how coherent a moment is


def change_signal(unit: Tensor) -> Tensor:
    """How sharply the direction of change turns at each inner frame: (n, D) unit vectors → (n − 2,), 0 to 2."""
    steps = unit[1:] - unit[:-1]
    still = steps.norm(dim=-1) < _STILL
    directions = F.normalize(steps, dim=-1).masked_fill(still[:, None], 0.0)
    turned = 1 - (directions[1:] * directions[:-1]).sum(-1)
    return turned.masked_fill(still[1:] & still[:-1], 0.0)


def boundaries(signal: Tensor, count: int) -> list[Tensor]:
    """Per level, finest first: 0, the frames at which a new segment begins, ``count``. Too short a video: one level
    of one segment.

    ``signal[i]`` belongs to frame ``i + 1``, where the direction turns: the new segment begins there.
    """
    ends = torch.tensor([0, count], device=signal.device)
    found = []
    for detail in details(signal.double()):
        size = detail.abs()
        peak = (size[1:-1] >= size[:-2]) & (size[1:-1] > size[2:])
        high = size[1:-1] > torch.clamp(size.mean() + size.std(correction=0), min=_ROUNDING)
        cuts = (peak & high).nonzero().flatten() + 2  # 1 for the left end left out, 1 from signal to frame
        found.append(torch.cat([ends[:1], cuts, ends[1:]]))
    return found or [ends]


def graph(vectors: Tensor, segments: Tensor, level: Tensor) -> Tensor:
    """Weights between segments, (S, S), normalised by degree on both sides.

    Within a level, similar and near segments are linked; between neighbouring levels, similar and overlapping ones.
    """
    start, end = segments[:, 0].to(vectors.dtype), segments[:, 1].to(vectors.dtype)
    alike = (vectors @ vectors.T).clamp(min=0)
    length = end - start
    mean_length = torch.bincount(level, length) / torch.bincount(level)  # per level
    centre = (start + end) / 2
    near = torch.exp(-(centre[:, None] - centre).abs() / mean_length[level][:, None])
    shared = (torch.minimum(end[:, None], end) - torch.maximum(start[:, None], start)).clamp(min=0)
    overlap = shared / (length[:, None] + length - shared)
    apart = (level[:, None] - level).abs()
    weights = torch.where(apart == 0, alike + near, torch.where(apart == 1, overlap * alike, 0.0))
    weights.fill_diagonal_(1.0)
    scale = weights.sum(1).rsqrt()
    return scale[:, None] * weights * scale


def propagate(vectors: Tensor, links: Tensor, propagation: float) -> Tensor:
    """(1 − β)(I − βG)⁻¹ X: each segment with what reaches it over the graph, (S, D)."""
    identity = torch.eye(len(links), dtype=links.dtype, device=links.device)
    spread: Tensor = torch.linalg.solve(identity - propagation * links, (1 - propagation) * vectors)
    return spread


def fixed_windows(frames: Tensor, window: int, stride: int) -> Moments:
    """Unit means of equal, overlapping stretches of one video, (n, D): the simple alternative."""
    unit = F.normalize(frames.float(), dim=-1)
    starts = torch.arange(0, max(1, len(unit) - window + stride), stride, device=unit.device)
    starts = _distinct(starts.clamp(max=max(0, len(unit) - window)), len(unit))
    spans = torch.stack([starts, (starts + window).clamp(max=len(unit))], 1)
    return Moments(F.normalize(_means(unit, spans), dim=-1), spans)


def single_frames(frames: Tensor) -> Moments:
    """Every frame by itself."""
    starts = torch.arange(len(frames), device=frames.device)
    return Moments(F.normalize(frames.float(), dim=-1), torch.stack([starts, starts + 1], 1))


def _distinct(places: Tensor, most: int) -> Tensor:
    """Sorted, without duplicates."""
    present = torch.zeros(most + 1, dtype=torch.bool, device=places.device)
    present[places] = True
    return present.nonzero().flatten()


def _means(unit: Tensor, spans: Tensor) -> Tensor:
    """Means over stretches: (n, D), (S, 2) → (S, D)."""
    total = F.pad(unit.double().cumsum(0), (0, 0, 1, 0))  # double: differences of long sums
    return ((total[spans[:, 1]] - total[spans[:, 0]]) / (spans[:, 1] - spans[:, 0])[:, None]).to(unit.dtype)
