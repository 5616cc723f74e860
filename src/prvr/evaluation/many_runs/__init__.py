"""Many runs in one table: methods, datasets and seeds, with paired tests and published numbers."""

from prvr.evaluation.many_runs.benchmarks import Benchmark, ScoredRow, gather_benchmarks
from prvr.evaluation.many_runs.changes import MethodChange, measure_changes
from prvr.evaluation.many_runs.cost import RunCost, measure_cost
from prvr.evaluation.many_runs.evaluated import EvaluatedRun, evaluated_run, find_runs, is_evaluated
from prvr.evaluation.many_runs.tables import PublishedRows
from prvr.evaluation.many_runs.write import RunsComparison, write_runs_comparison

__all__ = [
    "Benchmark",
    "EvaluatedRun",
    "MethodChange",
    "PublishedRows",
    "RunCost",
    "RunsComparison",
    "ScoredRow",
    "evaluated_run",
    "find_runs",
    "gather_benchmarks",
    "is_evaluated",
    "measure_changes",
    "measure_cost",
    "write_runs_comparison",
]
