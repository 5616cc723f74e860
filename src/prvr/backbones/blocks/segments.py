"""How many segments a video has, and which clips make each: an adaptive merging of clips that look alike (MSC-PRVR).

It works on input features, so nothing here is learned. Every video goes down the whole chain of merges and is read off
at its own level: shapes never depend on values, and a step can be captured and replayed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = (32, 20, 12, 8, 5)  # segments of a video of 32 clips, from unlike clips to alike ones
_BOUNDS = (0.2, 0.4, 0.6, 0.8)  # the share of linked pairs from which the next level holds


def segment_levels(clips: int) -> list[int]:
    """The numbers of segments that videos of so many clips can have.

    >>> segment_levels(32), segment_levels(8)
    ([32, 20, 12, 8, 5], [8, 5, 3, 2, 1])
    """
    levels = [clips]
    for level in _LEVELS[1:]:
        before = levels[-1]
        levels.append(max(1, before - before // 2, min(before, clips * level // _LEVELS[0])))
    return levels


def linked_share(features: Tensor, threshold: float) -> Tensor:
    """The share of pairs of clips that are linked by a chain of cosines above the threshold, (B, C, D) → (B,).

    >>> row = torch.tensor([[[1.0, 0.0], [0.8, 0.6], [0.28, 0.96], [-1.0, 0.0]]])
    >>> linked_share(row, 0.7)  # the first three form a chain: 6 of 12 ordered pairs
    tensor([0.5000])
    """
    unit = F.normalize(features, dim=-1)
    clips = unit.shape[1]
    itself = torch.eye(clips, dtype=torch.bool, device=unit.device)
    linked = (unit @ unit.transpose(1, 2) > threshold) | itself
    for _ in range(max(1, (clips - 1).bit_length())):  # each squaring doubles the length of chains
        linked = linked.float() @ linked.float() > 0
    return (linked & ~itself).sum((1, 2)) / max(1, clips * (clips - 1))


def level_of(share: Tensor) -> Tensor:
    """The level of a share of linked pairs, (B,) → (B,): 0 is no merging, 4 the fewest segments."""
    return torch.stack([share >= bound for bound in _BOUNDS]).sum(0)  # plain comparisons can be captured as a graph


def merged_segments(features: Tensor, sizes: Tensor, level: Tensor) -> Tensor:
    """The segment of each clip, (B, C, D), (B, C), (B,) → (B, C), numbered in the order of the merged sequence.

    A round pairs tokens at even places with tokens at odd ones, most alike first, each at most once. A pair stands
    where its even token stood; its feature is the mean weighted by sizes.
    """
    x, weight = features, sizes.to(features.dtype)
    segment = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    levels = [segment]
    for left in segment_levels(x.shape[1])[1:]:
        goes_to = _matched(x, x.shape[1] - left)  # (B, n) the place that each place moves to
        kept = goes_to == torch.arange(x.shape[1], device=x.device)
        place = (kept.cumsum(1) - 1).gather(1, goes_to)  # in the shorter sequence
        segment = place.gather(1, segment)
        total = weight.new_zeros(len(x), left).scatter_add(1, place, weight)
        x = x.new_zeros(len(x), left, x.shape[2]).scatter_add(1, place[..., None].expand_as(x), weight[..., None] * x)
        x, weight = x / total[..., None], total
        levels.append(segment)
    return torch.stack(levels, 1)[torch.arange(len(x), device=x.device), level]


def _matched(x: Tensor, pairs: int) -> Tensor:
    """Greedy one-to-one matching of even and odd places by cosine, (B, n, D) → (B, n): where each place moves to.

    Of equal pairs the one with the lower even place, then the lower odd place, comes first.
    """
    batch, count = x.shape[:2]
    unit = F.normalize(x, dim=-1)
    alike = unit[:, 0::2] @ unit[:, 1::2].transpose(1, 2)  # (B, even, odd)
    width = alike.shape[2]
    even, odd = (torch.arange(n, device=x.device) for n in alike.shape[1:])
    goes_to = torch.arange(count, device=x.device).repeat(batch, 1)
    for _ in range(pairs):
        best = alike.flatten(1).argmax(1)  # of equals the first
        row, column = best // width, best % width
        goes_to = goes_to.scatter(1, (2 * column + 1)[:, None], (2 * row)[:, None])
        taken = (even == row[:, None])[:, :, None] | (odd == column[:, None])[:, None]
        alike = alike.masked_fill(taken, -torch.inf)
    return goes_to
