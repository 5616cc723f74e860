"""Measures for queries with several correct videos: mAP, nDCG and coverage, from the ranks of all of them.

With correct videos at ranks r₁ < … < r_P of a query:

- AP = (1/P) Σᵢ i / rᵢ, over the whole ranking; mAP is its mean over queries (with one correct video, the mean of 1/r)
- nDCG@k = Σ_{rᵢ ≤ k} 1/log₂(1 + rᵢ) / Σ_{i ≤ min(P, k)} 1/log₂(1 + i)
- coverage@k: the share of a query's correct videos that is among its first k answers, averaged over queries
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean

NEAR, FAR = 10, 100  # the k of nDCG and coverage


@dataclass(frozen=True)
class Relevance:
    """Means over queries, in percent."""

    mean_average_precision: float
    ndcg_10: float
    ndcg_100: float
    coverage_10: float
    coverage_100: float
    queries: int

    @staticmethod
    def of(positives: Sequence[Sequence[int]]) -> Relevance:
        """From the ranks of all correct videos of each query, ascending.

        >>> found = Relevance.of([[1, 3]])
        >>> round(found.mean_average_precision, 1), round(found.ndcg_10, 1), found.coverage_10
        (83.3, 92.0, 100.0)
        """

        def mean(measure: Callable[[Sequence[int]], float]) -> float:
            return 100.0 * fmean(map(measure, positives))

        return Relevance(
            mean_average_precision=mean(average_precision),
            ndcg_10=mean(partial(ndcg, k=NEAR)),
            ndcg_100=mean(partial(ndcg, k=FAR)),
            coverage_10=mean(partial(share_within, k=NEAR)),
            coverage_100=mean(partial(share_within, k=FAR)),
            queries=len(positives),
        )

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def average_precision(places: Sequence[int]) -> float:
    """AP of one query, whose correct videos are at these ranks (ascending)."""
    return sum(number / rank for number, rank in enumerate(places, start=1)) / len(places)


def ndcg(places: Sequence[int], k: int) -> float:
    """nDCG@k of one query with gains of 0 and 1."""
    best = sum(1 / math.log2(1 + rank) for rank in range(1, min(len(places), k) + 1))
    return sum(1 / math.log2(1 + rank) for rank in places if rank <= k) / best


def share_within(places: Sequence[int], k: int) -> float:
    """Coverage@k of one query."""
    return sum(rank <= k for rank in places) / len(places)
