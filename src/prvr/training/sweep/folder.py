"""The folder of a sweep: a run for each training, a log for each, and ``sweep.json``, which lists them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from prvr.backbones import method
from prvr.files import Busy, exclusive_lock, read_json_object, write_whole
from prvr.training.calibration import read_calibration
from prvr.training.changes import config_changes
from prvr.training.distributed import Processes
from prvr.training.run import Run, RunError
from prvr.training.sweep.plan import PlannedRun, SweepPlan

SWEEP_FILE = "sweep.json"
SWEPT = "sweep"  # in run.json: what the sweep calls the run's method and dataset
_FORMAT = 1

SweepState: TypeAlias = Literal["new", "started", "finished"]


class SweepFolder:
    """Where the runs of a sweep lie, and how far they are.

    A planned run that was already trained there under another name, before its sweep varied another setting, keeps that
    name in ``plan``.
    """

    def __init__(self, plan: SweepPlan):
        self.path = plan.out
        trained = self._trained_runs()
        self.plan = replace(plan, runs=tuple(self._under_its_name(planned, trained) for planned in plan.runs))

    def run(self, planned: PlannedRun) -> Run:
        return Run(self.path / planned.name)

    def log(self, planned: PlannedRun) -> Path:
        """What its training printed."""
        return self.path / "logs" / f"{planned.name}.log"

    def state(self, planned: PlannedRun) -> SweepState:
        run = self.run(planned)
        if not _has_begun(run):
            return "new"
        here = _is_on_data_of(run, planned)  # if not, the training looks whether it is the same data
        return "finished" if here and is_finished(run) else "started"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder against other sweeps, after a look at whether its runs are those of the plan.

        Raises:
            RunError: another sweep works in it, or runs in it were made with other settings.
        """
        self._require_same_runs()
        (self.path / "logs").mkdir(parents=True, exist_ok=True)
        try:
            with exclusive_lock(self.path / ".lock"):
                listed = {"format": _FORMAT, "file": str(self.plan.file), "runs": [run.name for run in self.plan.runs]}
                write_whole(self.path / SWEEP_FILE, json.dumps(listed, indent=1) + "\n")
                yield
        except Busy as busy:
            holder = busy.holder or "another process"
            raise RunError(f"{holder} sweeps in {self.path}: wait until it is done, or choose another --out") from None

    def create(self, planned: PlannedRun) -> None:
        """Write the run's configuration, from which ``prvr train --resume`` trains it.

        Raises:
            RunError: another process trains in the run's folder, or has just done so.
        """
        about: dict[str, Any] = {"label": planned.label, "dataset": planned.dataset}
        command = shlex.join(["prvr", "sweep", str(self.plan.file), "--out", str(self.path)])
        run = self.run(planned)
        with run.locked(Processes(0, 1, torch.device("cpu"))):
            if not _has_begun(run):
                (run.path / "run.json").unlink(missing_ok=True)  # of one that failed before it began
            run.create(planned.config, planned.data, command=command, **{SWEPT: about})

    def others(self) -> list[str]:
        """Runs in the folder that the plan does not name."""
        names = {run.name for run in self.plan.runs}
        return sorted(path.parent.name for path in self.path.glob("*/run.json") if path.parent.name not in names)

    def _trained_runs(self) -> dict[tuple[str, str, int], list[Run]]:
        """The runs of the folder in which something was trained, by method, dataset and seed."""
        found: dict[tuple[str, str, int], list[Run]] = {}
        for path in sorted(self.path.glob("*/run.json")):
            run = Run(path.parent)
            with suppress(RunError):  # shown where the run itself is needed
                about = run.record.get(SWEPT)
                if isinstance(about, dict) and _has_begun(run):
                    key = (str(about.get("label")), str(about.get("dataset")), run.config.seed)
                    found.setdefault(key, []).append(run)
        return found

    def _under_its_name(self, planned: PlannedRun, trained: dict[tuple[str, str, int], list[Run]]) -> PlannedRun:
        alike = trained.get((planned.label, planned.dataset, planned.config.seed), [])
        same = [run.path.name for run in alike if _is_on_data_of(run, planned) and not _changes(run, planned)]
        return planned if planned.name in same or not same else replace(planned, name=same[0])

    def _require_same_runs(self) -> None:
        for planned in self.plan.runs:
            run = self.run(planned)
            if not _has_begun(run):
                continue
            changes = _changes(run, planned)
            told = [f"{name} was {before} and is {now} now" for name, (before, now) in changes.items()]
            if not _is_on_data_of(run, planned) and Path(run.data).exists():
                told.append(f"its data was {run.data} and is {planned.data.resolve()} now")
            if told:
                more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
                raise RunError(
                    f"{run.path} was trained as {self.plan.file} does not say any more: {'; '.join(told[:5])}{more}. "
                    "Change it back, choose another --out, or delete that run"
                )


def _changes(run: Run, planned: PlannedRun) -> dict[str, tuple[Any, Any]]:
    data = planned.data
    return config_changes(run.config_for(data), run.with_trained_feature(planned.config, data))


def _is_on_data_of(run: Run, planned: PlannedRun) -> bool:
    return Path(run.data) == planned.data.resolve()


def _has_begun(run: Run) -> bool:
    """Whether something was trained that can be continued."""
    return (run.path / "run.json").exists() and any((run.path / part).is_dir() for part in ("checkpoints", "weights"))


def is_finished(run: Run) -> bool:
    """Whether a training has come to its end; the calibration is its last part, or the witness where it has one."""
    config = run.config
    if not (run.has_weights("average") or not method(config.method).trainable) or read_calibration(run) is None:
        return False
    return config.witness_stage.steps == 0 or run.has_weights("witness")


def sweep_runs(folder: Path) -> tuple[list[Run], list[Run]]:
    """The runs that a sweep lists: those that are finished, and the others."""
    listed = read_json_object(folder / SWEEP_FILE).get("runs")
    if not isinstance(listed, list) or not all(isinstance(name, str) and name == Path(name).name for name in listed):
        raise RunError(f"{folder / SWEEP_FILE} does not list runs: run `prvr sweep` again to renew it")
    runs = [Run(folder / name) for name in listed]
    done = [run for run in runs if (run.path / "run.json").exists() and is_finished(run)]
    return done, [run for run in runs if run not in done]
