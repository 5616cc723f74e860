"""Hard-negative subsets: queries the base ranks wrongly, by how unsupported the winner's peak is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from prvr.evaluation.significance import DRAWS, SEED, Estimate, estimate


def hardest_share(gap: Tensor, errors: Tensor, share: float) -> Tensor:
    """The share of error queries with the largest gap, (Q,) bool; at least one if there is any error.

    Args:
        gap: (Q,) unsupported gap of each query's hard negative.
        errors: (Q,) bool, queries that the base ranks wrongly at the top.
        share: such as 0.25; of equal gaps the earlier query is taken.

    >>> gap = torch.tensor([0.9, 0.1, 0.4, 0.3, 0.2])
    >>> hardest_share(gap, torch.tensor([False, True, True, True, True]), 0.5)
    tensor([False, False,  True,  True, False])
    """
    rows = errors.nonzero().squeeze(1)
    order = gap[rows].sort(descending=True, stable=True).indices
    kept = rows[order[: _count(len(rows), share)]]
    chosen = torch.zeros_like(errors)
    chosen[kept] = True
    return chosen


def gap_quartiles(gap: Tensor, errors: Tensor) -> list[Tensor]:
    """Error queries in four near-equal bins by gap, the smallest first; (Q,) bool each. The last is the top 25 %."""
    nested = [hardest_share(gap, errors, share) for share in (1.0, 0.75, 0.5, 0.25)]
    return [outer & ~inner for outer, inner in zip(nested, [*nested[1:], torch.zeros_like(errors)], strict=True)]


def mean_gain(before: Tensor, after: Tensor) -> Estimate:
    """Mean number of ranks gained, with its interval and p."""
    gain = (before - after).cpu().numpy().astype(np.int64)
    found = estimate(gain, DRAWS, np.random.default_rng(SEED))
    return Estimate(found.delta / 100, found.low / 100, found.high / 100, found.p)


def _count(rows: int, share: float) -> int:
    return min(rows, max(1, round(share * rows)))
