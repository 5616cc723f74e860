"""Which measurements there are, and running them one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import torch

from prvr.bench.growth import growth
from prvr.bench.measure import Machine, Row
from prvr.bench.scoring import all_pairs, one_query, ranking
from prvr.bench.training import training

Part: TypeAlias = Literal["scoring", "one-query", "ranks", "training", "growth"]
PARTS: tuple[Part, ...] = get_args(Part)
_WORK: dict[Part, Callable[[Machine, torch.device], Iterator[Row]]] = {
    "scoring": all_pairs,
    "one-query": one_query,
    "ranks": ranking,
    "training": training,
    "growth": growth,
}


def run(machine: Machine, device: torch.device, parts: Sequence[Part] = PARTS) -> Iterator[Row]:
    """Rows as they are measured."""
    for part in parts:
        yield from _WORK[part](machine, device)
