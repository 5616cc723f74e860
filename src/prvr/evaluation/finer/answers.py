"""What a scoring answers: the first videos of every query, and the ranks of all its correct ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.scoring import positive_ranks

FIRST = 100  # answers that are kept of each query
_ROWS = 512  # queries that are sorted together


@dataclass(frozen=True)
class Answers:
    """One scoring's answers to Q queries, in the order that ranks have: of equal scores, the earlier video first."""

    top: Tensor  # (Q, K) gallery rows of the first videos, best first
    scores: Tensor  # (Q, K)
    positives: tuple[tuple[int, ...], ...]  # per query: the ranks of all correct videos, ascending
    videos: int  # of the gallery

    @staticmethod
    def of(scores: Tensor, positives: Sequence[Sequence[int]], first: int = FIRST) -> Answers:
        """From scores (Q, V) and the rows of the correct videos of each query."""
        top, values = [], []
        for part in torch.split(scores, _ROWS):
            ordered = part.sort(dim=1, descending=True, stable=True)
            top.append(ordered.indices[:, :first].cpu())
            values.append(ordered.values[:, :first].float().cpu())
        query, rank = (found.cpu() for found in positive_ranks(scores, positives))
        found: list[list[int]] = [[] for _ in range(len(scores))]
        for row, place in zip(query.tolist(), rank.tolist(), strict=True):
            found[row].append(place)
        ranked = tuple(tuple(sorted(places)) for places in found)
        return Answers(torch.cat(top), torch.cat(values), ranked, scores.shape[1])

    @staticmethod
    def join(parts: Sequence[Answers]) -> Answers:
        """Answers of consecutive queries over one gallery."""
        ranked = tuple(places for part in parts for places in part.positives)
        top, scores = torch.cat([part.top for part in parts]), torch.cat([part.scores for part in parts])
        return Answers(top, scores, ranked, parts[0].videos)

    @property
    def any_ranks(self) -> Tensor:
        """The rank of each query's best correct video, (Q,)."""
        return torch.tensor([places[0] for places in self.positives])
