"""The best k of a stream of scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_LAST = (1 << 31) - 1


class Top(NamedTuple):
    """The best k videos of each query, best first; equal scores keep gallery order."""

    scores: Tensor  # (Q, k) float32
    indices: Tensor  # (Q, k)


class TopKeeper:
    """Keeps k per query while tiles pass by.

    A score and its place in the gallery are packed into one 64-bit integer that sorts by score, then by earlier place:
    no two are equal, so any way of finding the largest k gives the answer that a stable sort would.
    """

    def __init__(self, queries: int, k: int, device: torch.device):
        self.k = k
        self.best = torch.full((queries, k), torch.iinfo(torch.int64).min, device=device)
        self.finite = torch.ones((), dtype=torch.bool, device=device)  # read at the end: reading waits for the device

    def offer(self, scores: Tensor, queries: slice, first_video: int) -> None:
        """Scores of some queries for a run of videos, (q, v)."""
        if scores.numel():
            low, high = scores.aminmax()  # NaN passes through both
            self.finite &= torch.isfinite(low) & torch.isfinite(high)
        fresh = _pack(scores.float(), first_video)
        if fresh.shape[1] > self.k:
            fresh = fresh.topk(self.k, dim=1, sorted=False).values
        pool = torch.cat([self.best[queries], fresh], 1)
        self.best[queries] = pool.topk(self.k, dim=1, sorted=False).values

    def top(self) -> Top:
        self.require_finite()
        return self.sorted()

    def sorted(self) -> Top:
        """The best, without waiting for the device."""
        return _unpack(self.best.sort(dim=1, descending=True).values)

    def require_finite(self) -> None:
        """Refuse scores that cannot be ranked."""
        if not bool(self.finite):
            raise ValueError(
                "scores hold NaN or infinite values, which have no place in a ranking: look for queries or features "
                "that are not finite, a zero vector that was normalised, or a half-precision overflow"
            )


def _pack(scores: Tensor, first: int) -> Tensor:
    """
    >>> _unpack(_pack(torch.tensor([[0.5, -2.0]]), first=7))
    Top(scores=tensor([[ 0.5000, -2.0000]]), indices=tensor([[7, 8]]))
    """
    bits = (scores + 0.0).contiguous().view(torch.int32)  # + 0.0: both zeros are one
    ordered = bits ^ ((bits >> 31) & _LAST)  # as integers in the order of the floats
    place = torch.arange(first, first + scores.shape[1], device=scores.device)
    return (ordered.long() << 32) | (_LAST - place)


def _unpack(packed: Tensor) -> Top:
    ordered = (packed >> 32).to(torch.int32)
    scores = (ordered ^ ((ordered >> 31) & _LAST)).view(torch.float32)
    return Top(scores, _LAST - (packed & 0xFFFFFFFF))
