"""``prvr train``: train from a preset, with options that change it, and resume."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prvr.cli.hub_runs import is_shared, with_loaded_runs
from prvr.terminal import Console
from prvr.training import (
    OWN_PRESET,
    RECIPES,
    STARTED_FROM,
    ConfigError,
    Run,
    TrainConfig,
    Trainer,
    config_changes,
    config_from_run,
    copy_start,
    join_processes,
    load_preset,
    parse_loggers,
    preset_for_data,
    preset_names,
    resolve_config,
)

_LOG = "log"  # in run.json: the loggers that were chosen, for a training that is resumed


@dataclass(frozen=True)
class TrainArguments:
    """Train a backbone, then TRACE on it: `prvr train DATASET --data DIR`, or `prvr train DIR` with your own data.

    DATASET names a shipped preset (activitynet, charades, tvr, qvhighlights, synth, proxy, rendered, demo) or a .toml
    file of your own. DIR is the folder that holds the collection's TextData and FeatureData, such as `prvr data make`
    writes; `prvr data check DIR` checks that it is complete and names the features in it (--data.features clip-l14).
    Every number of the preset has an option below.

    `prvr train --resume RUN` continues a run after a kill or Ctrl-C; it remembers everything else. `prvr train --from
    RUN` trains TRACE on the backbone of a finished run, also an imported one. For several GPUs or processes, use
    `torchrun --nproc-per-node 2 -m -- prvr train …`.
    """

    dataset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATASET")]
    """name of a preset, path of a .toml file, or a folder with your own data"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset (not needed with --resume)"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """folder of the run [default: runs/DATASET-METHOD-seedN]"""
    resume: bool = False
    """with DATASET or --from: continue the run in --out from its last checkpoint, or start it if there is none"""
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="RUN")] = None
    """in place of DATASET: start from this run's backbone and train TRACE on it; the run gives data and settings"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    log: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """where curves go: tensorboard, wandb, both with a comma, or none [default: tensorboard, if it is installed]"""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=TrainConfig)


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint: `prvr train --resume RUN`. The run remembers everything else."""

    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset, if it was moved"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    log: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """where curves go: tensorboard, wandb, both with a comma, or none [default: as before]"""


def train_command(argv: list[str]) -> int:
    argv = with_loaded_runs(argv, "--from", "--model.first-stage")
    start = _option(argv, "--from")
    options_only = argv[:1] and argv[0].startswith("-")
    if start is None and options_only and any(word.partition("=")[0] == "--resume" for word in argv):
        named = _option(argv, "--resume") or ""
        if is_shared(named):
            raise ConfigError(f"{named} cannot be resumed, because it has no checkpoints: start from it with --from")
        resumed = tyro.cli(ResumeArguments, prog="prvr train", args=argv)
        config = Run(resumed.resume).config
        whole = TrainArguments("", out=resumed.resume, resume=True, config=config)
        whole = dataclasses.replace(whole, data=resumed.data, device=resumed.device, log=resumed.log)
        return _train(whole, argv)
    if start is not None:
        return _train(_started(Path(start), argv), argv)
    dataset, method = _preset_of(argv)
    own_data = _own_data(dataset, method, argv)
    if own_data is None:
        config = load_preset(dataset, method)
    else:
        config = preset_for_data(own_data, method, _option(argv, "--data.visual-feature"))
    default = TrainArguments(dataset=dataset, data=own_data, config=config)
    given = _without_recipe(argv) if method in RECIPES else argv  # the preset says which backbone it is made of
    return _train(tyro.cli(TrainArguments, prog="prvr train", args=given, default=default), argv)


def _without_recipe(argv: list[str]) -> list[str]:
    pairs = list(itertools.pairwise(["", *argv]))
    return [word for before, word in pairs if "--method" not in (before, word) and not word.startswith("--method=")]


def _started(start: Path, argv: list[str]) -> TrainArguments:
    """Options of a training that starts from a run, whose settings are the defaults."""
    source = Run(start)
    data = Path(source.data) if "data" in source.record else None  # a run from the hub does not have any
    config = config_from_run(source)
    read = _option(argv, "--data") or data
    if read is not None and _option(argv, "--data.visual-feature") is None:
        config = source.with_trained_feature(config, read)
    default = TrainArguments("", data=data, start=start, config=config)
    arguments = tyro.cli(TrainArguments, prog="prvr train", args=argv, default=default)
    if arguments.dataset or arguments.config.method != source.config.method:
        raise ConfigError(f"--from {start} gives dataset and method: leave out DATASET and --method")
    return arguments


def _train(arguments: TrainArguments, argv: list[str]) -> int:
    with join_processes(arguments.device) as group:
        console = Console() if group.is_first else None
        run = Run(arguments.out or _default_out(arguments))
        resumed = arguments.resume and (run.path / "run.json").exists()
        config, data = _stored(run, arguments) if resumed else _fresh(arguments)
        if not resumed:
            run.require_free()
        log = arguments.log or (run.record.get(_LOG) if resumed else None)
        # Reads the data, and reports what is wrong with it.
        trainer = Trainer(config, data, run, group, console, parse_loggers(log))
        if resumed:
            run.require_same_data(trainer.fingerprint)
            run.require_same_features(data)
        elif arguments.start is None and trainer.model.backbone.starts_from_run:
            raise ConfigError("these settings train a part of a model: name the run that has the rest (--from RUN)")
        with run.locked(group):
            if group.is_first and console is not None:
                if resumed:
                    run.set_data(data)
                    console.print(f"resuming {run.path}", highlight=False, soft_wrap=True)
                else:
                    command = shlex.join(["prvr", "train", *argv])
                    _create(run, trainer, arguments, command)
                    _announce(run, arguments, console)
            group.barrier()
            trainer.train()
    return 0


def _create(run: Run, trainer: Trainer, arguments: TrainArguments, command: str) -> None:
    about = {"fingerprint": trainer.fingerprint, "command": command}
    about |= {} if arguments.log is None else {_LOG: arguments.log}
    if arguments.start is None:
        run.create(trainer.config, arguments.data or "", **about)
        return
    new = copy_start(Run(arguments.start), run, trainer.config, trainer.model)
    run.create(trainer.config, arguments.data or "", **about, **{STARTED_FROM: str(arguments.start)})
    if new and trainer.console is not None:
        parts = ", ".join(new)
        trainer.console.print(f"{parts}: not in {arguments.start}, so it starts anew", soft_wrap=True)


def _stored(run: Run, arguments: TrainArguments) -> tuple[TrainConfig, Path]:
    data = arguments.data or Path(run.data)
    if arguments.start is not None:
        _refuse_another_start(run, arguments.start)
    config = run.config_for(data)
    _refuse_changes(run, config, resolve_config(run.with_trained_feature(arguments.config, data), data))
    return config, data


def _refuse_another_start(run: Run, start: Path) -> None:
    before = run.record.get(STARTED_FROM)
    if before is None or Path(before).resolve() != start.resolve():
        raise ConfigError(
            f"{run.path} was started from {before or 'no other run'}, not from {start}: "
            f"`prvr train --resume {run.path}` continues it, or choose another --out"
        )


def _fresh(arguments: TrainArguments) -> tuple[TrainConfig, Path]:
    data = _given_data(arguments)
    return resolve_config(arguments.config, data), data


def _given_data(arguments: TrainArguments) -> Path:
    if arguments.data is None:
        folder = f"; ./{arguments.dataset} means that folder" if Path(arguments.dataset).is_dir() else ""
        raise ConfigError(
            f"--data is missing: give the folder that holds the dataset (try `prvr data synth DIR`){folder}"
        )
    return arguments.data


def _announce(run: Run, arguments: TrainArguments, console: Console) -> None:
    config = arguments.config
    stages = f"{config.backbone_stage.epochs} backbone epochs, then {config.trace_stage.epochs} with TRACE"
    stages = stages if config.epochs else "nothing to train"
    console.print(
        f"{config.method} on {config.data.collection}: {stages}; run folder {run.path}", highlight=False, soft_wrap=True
    )


def _refuse_changes(run: Run, before: TrainConfig, now: TrainConfig) -> None:
    changed = [f"{name} {old} → {new}" for name, (old, new) in config_changes(before, now).items()]
    if changed:
        raise ConfigError(
            f"{run.path} was started with another configuration ({'; '.join(changed[:5])}): "
            "repeat the original flags to resume it, or choose another --out"
        )


def _preset_of(argv: list[str]) -> tuple[str, str]:
    """Dataset and method. They decide all defaults, so they are read before the other options."""
    method = _option(argv, "--method") or "dreamprvr"
    named = [word for word in argv[:1] if not word.startswith("-")]
    if not named and not {"-h", "--help"} & set(argv):
        names = ", ".join(preset_names())
        raise ConfigError(
            f"name the dataset first: prvr train DATASET …, one of {names}, a .toml file or a folder with your own data"
        )
    return (named or ["charades"])[0], method


def _own_data(dataset: str, method: str, argv: list[str]) -> Path | None:
    """The folder whose data decides the configuration; None where a preset does."""
    given = _option(argv, "--data")
    if dataset == OWN_PRESET:
        return Path(given) if given else None
    is_preset = dataset.endswith(".toml") or dataset in preset_names(method)
    return None if is_preset or not Path(dataset).is_dir() else Path(dataset)


def _option(argv: list[str], name: str) -> str | None:
    """The value of an option, before all options are parsed."""
    value = None
    for word, following in itertools.pairwise([*argv, ""]):
        if word == name:
            value = following
        elif word.startswith(f"{name}="):
            value = word.removeprefix(f"{name}=")
    return value


def _default_out(arguments: TrainArguments) -> Path:
    config = arguments.config
    name = Path(arguments.dataset or arguments.start or "").resolve().name.removesuffix(".toml")
    ending = f"from-{name}" if arguments.start else f"{name}-{config.method}"
    return Path("runs") / f"{ending}-seed{config.seed}"
