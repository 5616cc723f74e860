"""Many trainings from one file: what is trained, where it lies, and several processes that train it."""

from prvr.training.sweep.folder import SWEEP_FILE, SWEPT, SweepFolder, sweep_runs
from prvr.training.sweep.memory import FixedNumber, MemoryFit, gpu_memory
from prvr.training.sweep.plan import PlannedRun, SweepPlan, read_sweep
from prvr.training.sweep.runner import SweepEvents, SweepRunner, TrainingProcess, threads_for

__all__ = [
    "SWEEP_FILE",
    "SWEPT",
    "FixedNumber",
    "MemoryFit",
    "PlannedRun",
    "SweepEvents",
    "SweepFolder",
    "SweepPlan",
    "SweepRunner",
    "TrainingProcess",
    "gpu_memory",
    "read_sweep",
    "sweep_runs",
    "threads_for",
]
