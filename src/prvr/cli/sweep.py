"""``prvr sweep``: train many runs from one file, several at once where they fit."""

from __future__ import annotations

import shlex
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from prvr.cli.console import count, format_time
from prvr.cli.errors import print_error
from prvr.terminal import Console
from prvr.training import (
    ConfigError,
    FixedNumber,
    MemoryFit,
    PlannedRun,
    SweepFolder,
    SweepRunner,
    TrainingProcess,
    choose_device,
    gpu_memory,
    parse_loggers,
    read_sweep,
    threads_for,
)

_LINE_SECONDS = 30.0  # between lines about a training where no terminal shows a bar


@dataclass(frozen=True)
class SweepArguments:
    """Train every method on every dataset with every seed, as one TOML file says.

    For example:
        seeds = [0, 1, 2]
        methods = ["dreamprvr", "hlformer"]
        datasets = ["charades", "tvr"]
        data = "features"
        [settings]
        batch_size = 64
        trace.fusion_weight = [0.03, 0.05]

    `settings` takes the names of the options of `prvr train`. A list is a grid: one run with each value. The settings
    of one method or dataset stand under [methods.NAME.settings] or [datasets.NAME.settings]. Paths are relative to the
    file. With such tables, write [methods.NAME] for every method in place of the list. docs/research.md explains all.

    The same command goes on after Ctrl-C or a crash: finished runs are skipped, others are resumed. A run that fails
    does not stop the others; its log is in FOLDER/logs. `prvr compare FOLDER` makes the tables.
    """

    sweep: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SWEEP.toml")]
    """the file that says what is trained"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder of all runs [default: what the file says, or sweeps/NAME-OF-THE-FILE]"""
    at_once: Annotated[int | Literal["auto"], tyro.conf.arg(metavar="N|auto")] = "auto"
    """trainings at once. auto: on a GPU, up to four as its memory allows, measured while they run; on a CPU, one"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    log: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """where curves go: tensorboard, wandb, both with a comma, or none [default: tensorboard, if it is installed]"""
    plan: bool = False
    """show what would be trained, and train nothing"""


def sweep_command(argv: list[str]) -> int:
    arguments = tyro.cli(SweepArguments, prog="prvr sweep", args=argv)
    console = Console(highlight=False, soft_wrap=True)
    if arguments.at_once != "auto" and arguments.at_once < 1:
        raise ConfigError(f"--at-once {arguments.at_once}: give auto, or a number of at least 1")
    folder = SweepFolder(read_sweep(arguments.sweep, arguments.out))
    if arguments.plan:
        _show_plan(folder, console)
        return 0
    parse_loggers(arguments.log)  # so that a mistake is told before anything starts
    device = choose_device(arguments.device)
    fit = MemoryFit(gpu_memory(device)) if arguments.at_once == "auto" else FixedNumber(arguments.at_once)
    _stop_when_the_terminal_closes()
    with folder.opened(), _Events(folder, console) as events:
        threads = threads_for(fit.most, device.type == "cpu")
        words = ["--device", str(device), *(["--log", arguments.log] if arguments.log else [])]
        runner = SweepRunner(folder, fit, events, words=words, threads=threads)
        _announce(folder, runner, console)
        runner.train()
    return _end(folder, runner, console)


def _stop_when_the_terminal_closes() -> None:
    """Trainings have sessions of their own, which a closing terminal does not reach: stop as with Ctrl-C."""
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def _show_plan(folder: SweepFolder, console: Console) -> None:
    for number, run in enumerate(folder.plan.runs, start=1):
        console.print(f"{number:4}  {run.title}  ({run.config.epochs} epochs; {folder.state(run)})")
    console.print(f"{count(len(folder.plan.runs), 'run')} in {folder.path}; nothing was trained")


def _announce(folder: SweepFolder, runner: SweepRunner, console: Console) -> None:
    total, left = len(folder.plan.runs), len(runner.waiting)
    done = f", {total - left} of them finished" if left < total else ""
    console.print(f"{folder.plan.file}: {count(total, 'run')}{done}; in {folder.path}")
    others = folder.others()
    if others:
        names = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
        console.print(f"{count(len(others), 'run')} there that the file does not name: {names}")


def _end(folder: SweepFolder, runner: SweepRunner, console: Console) -> int:
    finished = len(folder.plan.runs) - len(runner.failed)
    console.print(f"done: {finished} of {count(len(folder.plan.runs), 'run')} finished")
    for name, problem in runner.failed.items():
        print_error(f"{name}: {problem} (all that it printed: {folder.path / 'logs' / name}.log)")
    if finished:
        console.print(f"next: {shlex.join(['prvr', 'compare', str(folder.path)])}")
    return 1 if runner.failed else 0


class _Events:
    """Shows how a sweep goes: bars on a terminal, lines from time to time elsewhere."""

    def __init__(self, folder: SweepFolder, console: Console):
        self.folder, self.console = folder, console
        self.total = len(folder.plan.runs)
        self.ended = sum(folder.state(run) == "finished" for run in folder.plan.runs)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        note = TextColumn("{task.fields[note]}")
        self.bar = Progress(*columns, note, console=console, transient=True, disable=not console.is_terminal)
        self.tasks: dict[str, TaskID] = {}
        self.spoken: dict[str, float] = {}  # when a line was printed about a run

    def __enter__(self) -> _Events:
        self.bar.start()
        self.tasks[""] = self.bar.add_task("all runs", total=self.total, completed=self.ended, note="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def started(self, training: TrainingProcess, resumed: bool) -> None:
        planned = training.planned
        self.tasks[planned.name] = self.bar.add_task(planned.title, total=planned.config.epochs, note="")
        self.spoken[planned.name] = time.monotonic()
        self._say(f"{'resumed' if resumed else 'started'}: {planned.title}")

    def running(self, trainings: list[TrainingProcess]) -> None:
        for training in trainings:
            planned, epochs = training.planned, training.epochs
            self.bar.update(self.tasks[planned.name], completed=epochs, note=_score(training))
            quiet = time.monotonic() - self.spoken[planned.name] > _LINE_SECONDS
            if quiet and epochs and not self.console.is_terminal:
                self.spoken[planned.name] = time.monotonic()
                self._say(f"  {planned.title}: epoch {epochs}/{planned.config.epochs}{_score(training, ', ')}")

    def finished(self, training: TrainingProcess) -> None:
        self._end(training.planned, f"finished: {training.planned.title}{_score(training, ', ')}", training)

    def failed(self, planned: PlannedRun, problem: str) -> None:
        self._end(planned, f"failed: {planned.title}: {problem}")

    def again(self, planned: PlannedRun, at_once: int) -> None:
        self.bar.remove_task(self.tasks.pop(planned.name))
        self._say(f"{planned.title}: the GPU's memory ran out; it goes on later, with {at_once} at once from now on")

    def stopping(self, trainings: list[TrainingProcess]) -> None:
        words = ["prvr", "sweep", str(self.folder.plan.file), "--out", str(self.folder.path)]
        if trainings:
            what = count(len(trainings), "training")
            self._say(f"stopping; {what} to be saved first (Ctrl-C again: end at once, unsaved)")
        self._say(f"`{shlex.join(words)}` continues from here")

    def _end(self, planned: PlannedRun, text: str, training: TrainingProcess | None = None) -> None:
        self.ended += 1
        self.bar.update(self.tasks[""], completed=self.ended)
        if planned.name in self.tasks:
            self.bar.remove_task(self.tasks.pop(planned.name))
        took = "" if training is None else f" ({format_time(training.seconds)})"
        self._say(f"{self.ended}/{self.total} {text}{took}")

    def _say(self, text: str) -> None:
        self.console.print(text)


def _score(training: TrainingProcess, before: str = "") -> str:
    return "" if training.sum_r is None else f"{before}validation SumR {training.sum_r:.2f}"
