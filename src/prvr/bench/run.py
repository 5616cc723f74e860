"""Runs benchmarks by name, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import torch

from prvr.bench.adding import adding
from prvr.bench.corpus import BenchmarkSizes
from prvr.bench.encoding import encoding
from prvr.bench.growth import growth
from prvr.bench.limits import MachineLimits
from prvr.bench.measure import Measurement
from prvr.bench.scoring import all_pairs, one_query, ranking
from prvr.bench.training import training


def _encoding_and_adding(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    yield from encoding(machine, device, sizes)
    yield from adding(device, sizes)


Benchmark: TypeAlias = Literal["scoring", "one-query", "ranks", "training", "growth", "encoding"]
BENCHMARKS: tuple[Benchmark, ...] = get_args(Benchmark)
_BENCHMARK_FUNCTIONS: dict[
    Benchmark, Callable[[MachineLimits, torch.device, BenchmarkSizes], Iterator[Measurement]]
] = {
    "scoring": all_pairs,
    "one-query": one_query,
    "ranks": ranking,
    "training": training,
    "growth": growth,
    "encoding": _encoding_and_adding,
}


def in_order(benchmarks: Sequence[Benchmark], device: torch.device) -> list[Benchmark]:
    """Benchmarks as they were named, but training last on a processor: it changes how this process keeps memory."""
    return sorted(benchmarks, key=lambda name: device.type == "cpu" and name == "training")


def run_benchmarks(
    machine: MachineLimits,
    device: torch.device,
    benchmarks: Sequence[Benchmark] = BENCHMARKS,
    sizes: BenchmarkSizes | None = None,
) -> Iterator[Measurement]:
    """Run benchmarks one after another and yield each measurement as it is taken.

    Args:
        machine: limits of the machine, which rates are compared with.
        device: where the work runs.
        benchmarks: which of them to run.
        sizes: how much work to measure; None: the sizes that results are reported for.
    """
    for benchmark in in_order(benchmarks, device):
        yield from _BENCHMARK_FUNCTIONS[benchmark](machine, device, sizes or BenchmarkSizes())
