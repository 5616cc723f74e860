"""``prvr train``: train from a preset, with options that change it, and resume."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from prvr.training import (
    ConfigError,
    Run,
    TrainConfig,
    Trainer,
    config_to_dict,
    join_processes,
    load_preset,
    preset_names,
    resolve_config,
)


@dataclass(frozen=True)
class TrainArguments:
    """Train a backbone, then TRACE on it: `prvr train DATASET --data DIR`.

    DATASET names a shipped preset (activitynet, charades, tvr, synth, proxy, rendered, demo) or a .toml file of your
    own. DIR is the folder that holds the collection's TextData and FeatureData; `prvr data check DIR` checks that it is
    complete. Every number of the preset has an option below. For several GPUs or processes, use
    `torchrun --nproc-per-node 2 -m prvr train …`.
    """

    dataset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATASET")]
    """name of a preset, or path of a .toml file"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset (not needed with --resume)"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """folder of the run [default: runs/DATASET-METHOD-seedN]"""
    resume: bool = False
    """continue the run in --out from its last checkpoint, or start it if there is none"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=TrainConfig)


def train_command(argv: list[str]) -> int:
    dataset, method = _preset_of(argv)
    default = TrainArguments(dataset=dataset, config=load_preset(dataset, method))
    arguments = tyro.cli(TrainArguments, prog="prvr train", args=argv, default=default)
    with join_processes(arguments.device) as group:
        console = Console() if group.is_first else None
        run = Run(arguments.out or _default_out(arguments))
        resumed = arguments.resume and (run.path / "run.json").exists()
        config, data = _stored(run, arguments) if resumed else _fresh(arguments)
        if not resumed:
            run.require_free()
        trainer = Trainer(config, data, run, group, console)  # reads the data, and reports what is wrong with it
        if resumed:
            run.require_same_data(trainer.fingerprint)
        with run.locked(group):
            if group.is_first and console is not None:
                if resumed:
                    run.set_data(data)
                    console.print(f"resuming {run.path}", highlight=False, markup=False, soft_wrap=True)
                else:
                    command = shlex.join(["prvr", "train", *argv])
                    run.create(config, data, fingerprint=trainer.fingerprint, command=command)
                    _announce(run, arguments, console)
            group.barrier()
            trainer.train()
    return 0


def _stored(run: Run, arguments: TrainArguments) -> tuple[TrainConfig, Path]:
    data = arguments.data or Path(run.data)
    _refuse_changes(run, resolve_config(arguments.config, data))
    return run.config, data


def _fresh(arguments: TrainArguments) -> tuple[TrainConfig, Path]:
    data = _given_data(arguments)
    return resolve_config(arguments.config, data), data


def _given_data(arguments: TrainArguments) -> Path:
    if arguments.data is None:
        raise ConfigError("--data is missing: give the folder that holds the dataset (try `prvr data synth DIR`)")
    return arguments.data


def _announce(run: Run, arguments: TrainArguments, console: Console) -> None:
    config = arguments.config
    stages = f"{config.backbone_stage.epochs} backbone epochs, then {config.trace_stage.epochs} with TRACE"
    console.print(
        f"{config.method} on {config.data.collection}: {stages}; run folder {run.path}", highlight=False, soft_wrap=True
    )


def _refuse_changes(run: Run, config: TrainConfig) -> None:
    before, now = _flat(config_to_dict(run.config)), _flat(config_to_dict(config))
    harmless = ("checkpoint_seconds", "checkpoint_steps", "graphs", "compile")  # do not change what is learned
    different = [name for name in now if before.get(name) != now[name] and name not in harmless]
    changed = [f"{name} {before.get(name)} → {now[name]}" for name in different]
    if changed:
        raise ConfigError(
            f"{run.path} was started with another configuration ({'; '.join(changed[:5])}): "
            "repeat the original flags to resume it, or choose another --out"
        )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _preset_of(argv: list[str]) -> tuple[str, str]:
    """Dataset and method. They decide all defaults, so they are read before the other options."""
    method = "dreamprvr"
    for word, following in itertools.pairwise([*argv, ""]):
        if word == "--method":
            method = following
        elif word.startswith("--method="):
            method = word.removeprefix("--method=")
    named = [word for word in argv[:1] if not word.startswith("-")]
    if not named and not {"-h", "--help"} & set(argv):
        names = ", ".join(preset_names())
        raise ConfigError(f"name the dataset first: prvr train DATASET …, one of {names}, or a .toml file")
    return (named or ["charades"])[0], method


def _default_out(arguments: TrainArguments) -> Path:
    config = arguments.config
    return Path("runs") / f"{Path(arguments.dataset).stem}-{config.method}-seed{config.seed}"
