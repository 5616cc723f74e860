"""``prvr bench``: how fast this machine scores, ranks and trains, compared with its limits and a naive baseline."""

from prvr.bench.adding import adding, films_in
from prvr.bench.corpus import BenchmarkSizes, Shape, random_gallery, random_queries
from prvr.bench.limits import MachineLimits
from prvr.bench.measure import Measurement
from prvr.bench.run import BENCHMARKS, Benchmark, run_benchmarks
from prvr.bench.training import make_step, random_batch

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "BenchmarkSizes",
    "MachineLimits",
    "Measurement",
    "Shape",
    "adding",
    "films_in",
    "make_step",
    "random_batch",
    "random_gallery",
    "random_queries",
    "run_benchmarks",
]
