"""Training: configuration, the progressive schedule, the loop, and runs on disk."""

from prvr.training.config import ConfigError, TrainConfig, load_preset, preset_names
from prvr.training.distributed import choose_device, processes
from prvr.training.interrupt import Interrupted
from prvr.training.loop import Trainer, TrainingError
from prvr.training.model import TraceModel
from prvr.training.run import Run, RunError
from prvr.training.validate import split_scores, validate

__all__ = [
    "ConfigError",
    "Interrupted",
    "Run",
    "RunError",
    "TraceModel",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "choose_device",
    "load_preset",
    "preset_names",
    "processes",
    "split_scores",
    "validate",
]
