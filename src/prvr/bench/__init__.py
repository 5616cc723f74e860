"""Speed, measured: every row a piece of real work beside the limit of this machine and a baseline, in one run."""

from prvr.bench.measure import MachineLimits, Measurement
from prvr.bench.plan import BENCHMARKS, Benchmark, run_benchmarks

__all__ = ["BENCHMARKS", "Benchmark", "MachineLimits", "Measurement", "run_benchmarks"]
