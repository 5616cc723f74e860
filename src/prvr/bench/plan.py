"""Which measurements there are, and running them one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import torch

from prvr.bench.growth import growth
from prvr.bench.measure import MachineLimits, Measurement
from prvr.bench.scoring import all_pairs, one_query, ranking
from prvr.bench.training import training

Benchmark: TypeAlias = Literal["scoring", "one-query", "ranks", "training", "growth"]
BENCHMARKS: tuple[Benchmark, ...] = get_args(Benchmark)
_WORK: dict[Benchmark, Callable[[MachineLimits, torch.device], Iterator[Measurement]]] = {
    "scoring": all_pairs,
    "one-query": one_query,
    "ranks": ranking,
    "training": training,
    "growth": growth,
}


def run_benchmarks(
    machine: MachineLimits, device: torch.device, parts: Sequence[Benchmark] = BENCHMARKS
) -> Iterator[Measurement]:
    """Rows as they are measured."""
    for part in parts:
        yield from _WORK[part](machine, device)
