"""Snapshot averaging: the mean of several epochs' weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def average_snapshots(snapshots: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over several snapshots, accumulated in float64.

    >>> average_snapshots([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}])
    {'w': tensor([1.5000])}
    """
    if not snapshots:
        raise ValueError("no snapshots to average")
    names = snapshots[0].keys()
    return {n: torch.stack([s[n].double() for s in snapshots]).mean(0).to(snapshots[0][n].dtype) for n in names}
