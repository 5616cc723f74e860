"""Training: configuration, the progressive schedule, the loop, and runs on disk.

Train a preset, then load what it learned::

    config = load_preset("charades", "dreamprvr")
    run = Run("runs/charades")
    run.create(config, data)
    with join_processes("auto") as group:
        Trainer(config, data, run, group, Console()).train()
    model, about = run.load_model()

``PhaseSetup`` gives the optimiser and the step of one phase, for code that drives single steps (benchmarks).
"""

from prvr.errors import Interrupted
from prvr.training.calibration import RunCalibration, calibrate_run, read_calibration, support_of_first_answers
from prvr.training.changes import HARMLESS, config_changes, flat_settings
from prvr.training.config import (
    RECIPES,
    BackboneStage,
    ConfigError,
    TraceStage,
    TrainConfig,
    WitnessStage,
    config_from_dict,
    config_to_dict,
    load_preset,
    preset_names,
)
from prvr.training.distributed import Processes, choose_device, join_processes
from prvr.training.imports import import_checkpoint
from prvr.training.loggers import LOGGERS, parse_loggers
from prvr.training.loop import Trainer, TrainingError
from prvr.training.metrics import read_metrics
from prvr.training.model import TraceModel
from prvr.training.optim import backbone_optimiser, set_rate
from prvr.training.own_data import OWN_PRESET, preset_for_data
from prvr.training.phases import PhaseSetup
from prvr.training.precision import multiplies_bf16
from prvr.training.run import Run, RunError
from prvr.training.schedule import PhaseEpoch, backbone_rate, phase_at
from prvr.training.splits import captions_hash, load_split, move_if_it_fits, resolve_config
from prvr.training.start import STARTED_FROM, config_from_run, copy_start
from prvr.training.step import PlainStep, Step
from prvr.training.sweep import (
    SWEEP_FILE,
    SWEPT,
    FixedNumber,
    MemoryFit,
    PlannedRun,
    SweepFolder,
    SweepPlan,
    SweepRunner,
    TrainingProcess,
    gpu_memory,
    read_sweep,
    sweep_runs,
    threads_for,
)
from prvr.training.validation import split_scores, validate
from prvr.training.witness import (
    WitnessMaterial,
    train_witness,
    witness_material,
    witness_scores,
)
from prvr.training.witness_fusion import QueryWeights, fit_hubs, fit_query_weights, fit_weight, rescored, rescored_sum_r
from prvr.training.witness_run import (
    FittedWitness,
    WitnessScores,
    fit_run_witness,
    load_run_witness,
    save_run_witness,
)

__all__ = [
    "HARMLESS",
    "LOGGERS",
    "OWN_PRESET",
    "RECIPES",
    "STARTED_FROM",
    "SWEEP_FILE",
    "SWEPT",
    "BackboneStage",
    "ConfigError",
    "FittedWitness",
    "FixedNumber",
    "Interrupted",
    "MemoryFit",
    "PhaseEpoch",
    "PhaseSetup",
    "PlainStep",
    "PlannedRun",
    "Processes",
    "QueryWeights",
    "Run",
    "RunCalibration",
    "RunError",
    "Step",
    "SweepFolder",
    "SweepPlan",
    "SweepRunner",
    "TraceModel",
    "TraceStage",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "TrainingProcess",
    "WitnessMaterial",
    "WitnessScores",
    "WitnessStage",
    "backbone_optimiser",
    "backbone_rate",
    "calibrate_run",
    "captions_hash",
    "choose_device",
    "config_changes",
    "config_from_dict",
    "config_from_run",
    "config_to_dict",
    "copy_start",
    "fit_hubs",
    "fit_query_weights",
    "fit_run_witness",
    "fit_weight",
    "flat_settings",
    "gpu_memory",
    "import_checkpoint",
    "join_processes",
    "load_preset",
    "load_run_witness",
    "load_split",
    "move_if_it_fits",
    "multiplies_bf16",
    "parse_loggers",
    "phase_at",
    "preset_for_data",
    "preset_names",
    "read_calibration",
    "read_metrics",
    "read_sweep",
    "rescored",
    "rescored_sum_r",
    "resolve_config",
    "save_run_witness",
    "set_rate",
    "split_scores",
    "support_of_first_answers",
    "sweep_runs",
    "threads_for",
    "train_witness",
    "validate",
    "witness_material",
    "witness_scores",
]
