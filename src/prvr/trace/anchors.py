"""Anchors: stand-ins for registers, pooled from a video's own local tokens.

A backbone without registers can still be verified by TRACE: its tokens are pooled into a few unit vectors, over time
(``temporal-k``) or regardless of order (``global-k``), or both together (``hybrid``). Nothing is learned.
"""

from __future__ import annotations

import re
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.errors import UserError
from prvr.tokens import VideoTokens, as_mask
from prvr.trace.operator import clean

ANCHOR_KINDS = ("temporal-4", "temporal-6", "temporal-8", "global-1", "global-4", "global-6", "global-8", "hybrid")
_ROUNDS = 10  # of k-means; a handful of tokens per cluster settles in fewer


class UnknownAnchors(UserError, ValueError):
    """No such anchors, or registers that a backbone does not have."""


def with_anchors(videos: VideoTokens, kind: str) -> VideoTokens:
    """The same tokens with anchors as their registers.

    ``registers`` keeps those of the backbone; ``hybrid`` keeps them where there are some (else global-4) and adds
    temporal-4.
    """
    if kind == "registers":
        if videos.registers is None:
            raise UnknownAnchors("this backbone has no registers: choose temporal-K, global-K or hybrid anchors")
        return videos
    if kind == "hybrid":
        own = videos.registers if videos.registers is not None else anchors(videos, "global-4")
        made = torch.cat([F.normalize(own, dim=-1), anchors(videos, "temporal-4")], 1)
    else:
        made = anchors(videos, kind)
    return replace(videos, registers=made)


def anchors(videos: VideoTokens, kind: str) -> Tensor:
    """Anchors of one kind from the backbone's local evidence, (V, k, D) unit vectors."""
    found = re.fullmatch(r"(temporal|global)-([1-9]\d*)", kind)
    if found is None:
        raise UnknownAnchors(f"unknown anchors {kind!r}; there are temporal-K, global-K, hybrid and registers")
    pool = temporal_anchors if found[1] == "temporal" else global_anchors
    return pool(videos.evidence, as_mask(videos.evidence_mask), int(found[2]))


def temporal_anchors(tokens: Tensor, mask: Tensor, count: int) -> Tensor:
    """Means of ``count`` contiguous, near-equal runs of valid tokens: (V, M, D), (V, M) → (V, k, D).

    A video with fewer tokens than runs repeats some.

    >>> tokens = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [9.0, 9.0]]])
    >>> temporal_anchors(tokens, torch.tensor([[True, True, True, True, False]]), 2)
    tensor([[[1., 0.],
             [0., 1.]]])
    """
    place = mask.cumsum(1) - 1  # (V, M) position among the valid ones
    valid = mask.sum(1)[:, None]  # (V, 1)
    run = torch.arange(count, device=tokens.device)[None]
    first = run * valid // count
    last = torch.maximum((run + 1) * valid // count, first + 1)  # (V, k)
    member = (place[:, None] >= first[..., None]) & (place[:, None] < last[..., None]) & mask[:, None]  # (V, k, M)
    return _means(member.to(tokens.dtype), clean(tokens, mask))


def global_anchors(tokens: Tensor, mask: Tensor, count: int) -> Tensor:
    """Order-free pooling by spherical k-means, deterministic: (V, M, D), (V, M) → (V, k, D). One anchor is the mean.

    The first centre is the token nearest the mean, each next one the token farthest from those chosen.
    """
    tokens = clean(tokens, mask)
    mean = _means(mask[:, None].to(tokens.dtype), tokens)  # (V, 1, D)
    if count == 1:
        return mean
    unit = F.normalize(tokens, dim=-1)
    centres = _farthest_points(unit, mask, mean, count)
    for _ in range(_ROUNDS):
        nearest = (unit @ centres.transpose(1, 2)).argmax(-1)  # (V, M)
        member = F.one_hot(nearest, count).to(unit.dtype).transpose(1, 2) * mask[:, None]  # (V, k, M)
        moved = _means(member, unit)
        centres = torch.where(member.sum(-1, keepdim=True) > 0, moved, centres)
    return centres


def _farthest_points(unit: Tensor, mask: Tensor, mean: Tensor, count: int) -> Tensor:
    rows = torch.arange(len(unit), device=unit.device)
    nearness = (unit @ mean.transpose(1, 2)).squeeze(-1).masked_fill(~mask, -torch.inf)  # (V, M)
    chosen = [unit[rows, nearness.argmax(1)]]
    closest = torch.full_like(nearness, -torch.inf)
    for _ in range(count - 1):
        closest = torch.maximum(closest, (unit @ chosen[-1][..., None]).squeeze(-1))
        chosen.append(unit[rows, closest.masked_fill(~mask, torch.inf).argmin(1)])
    return torch.stack(chosen, 1)


def _means(member: Tensor, tokens: Tensor) -> Tensor:
    """Unit means of groups of tokens: (V, k, M), (V, M, D) → (V, k, D)."""
    return F.normalize(member @ tokens, dim=-1)
