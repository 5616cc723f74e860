"""Train the runs of a sweep, each in a process of its own: ``prvr train --resume RUN``.

Interrupted, every training saves and stops as it does alone; the same sweep goes on later. A training that fails does
not stop the others.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from prvr.errors import UserError
from prvr.processes import python_command, usable_cores
from prvr.training.interrupt import hold_interrupts
from prvr.training.metrics import read_metrics
from prvr.training.run import Run, RunError
from prvr.training.sweep.folder import SweepFolder
from prvr.training.sweep.memory import FixedNumber, MemoryFit
from prvr.training.sweep.plan import PlannedRun

_LOOK_SECONDS = 0.3
_GPU_IS_FULL = re.compile(r"\b(CUDA|HIP)( error:)? out of memory")  # as torch says it


class TrainingProcess:
    """One training that runs.

    Args:
        planned: what it trains.
        run: where to.
        log: file that gets what it prints.
        words: further options of ``prvr train``.
        threads: that it may use on a CPU; 0: all.
    """

    def __init__(self, planned: PlannedRun, run: Run, log: Path, words: list[str], threads: int = 0):
        self.planned, self.run, self.log = planned, run, log
        self.started = time.monotonic()
        self.begin = log.stat().st_size if log.exists() else 0
        self.metrics: list[dict[str, Any]] = []  # of every epoch
        self.size = -1
        more = {"PYTHONUNBUFFERED": "1"} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        with log.open("ab") as file:
            # A session of its own: Ctrl-C at the terminal reaches the sweep alone, which then asks each to stop, once.
            self.process = subprocess.Popen(
                python_command("prvr", "train", "--resume", str(run.path), *words),
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                env=os.environ | more,
            )  # fmt: skip

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        self._read()
        return int(self.metrics[-1]["epoch"]) + 1 if self.metrics else 0

    @property
    def sum_r(self) -> float | None:
        """The newest SumR on validation."""
        self._read()
        validated = [epoch for epoch in self.metrics if "final" in epoch]
        return float(validated[-1]["final"]["sum_r"]) if validated else None

    def _read(self) -> None:
        path = self.run.path / "metrics.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size != self.size:
            self.size = size
            with suppress(RunError):  # shown when something reads it on purpose
                self.metrics = read_metrics(self.run.path)

    def problem(self) -> str:
        """Why it failed, in one sentence."""
        code = self.process.returncode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
            host = "; the host's memory may have run out (not the GPU's): try a smaller --at-once"
            return f"was ended by a signal ({name}){host if name == 'SIGKILL' else ''}"
        lines = self._printed()
        errors = [line.removeprefix("error:").strip() for line in lines if line.startswith("error:")]
        found = [line for line in lines if _GPU_IS_FULL.search(line)] or errors or lines
        return (found or [f"ended with status {code} and said nothing"])[-1]

    @property
    def gpu_was_full(self) -> bool:
        """Whether it ended because the GPU had no memory left."""
        return self.process.returncode > 0 and any(_GPU_IS_FULL.search(line) for line in self._printed())

    def _printed(self) -> list[str]:
        with self.log.open("rb") as file:
            file.seek(self.begin)
            return [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]

    def stop(self) -> None:
        """Ask it to save and stop, as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.terminate()


class SweepEvents(Protocol):
    """Who is told how a sweep goes."""

    def started(self, training: TrainingProcess, resumed: bool) -> None: ...
    def running(self, trainings: list[TrainingProcess]) -> None: ...
    def finished(self, training: TrainingProcess) -> None: ...
    def failed(self, planned: PlannedRun, problem: str) -> None: ...
    def again(self, planned: PlannedRun, at_once: int) -> None: ...
    def stopping(self, trainings: list[TrainingProcess]) -> None: ...


class SweepRunner:
    """Trains what is not finished.

    Args:
        folder: the sweep.
        fit: how many trainings run at once.
        events: who is told.
        words: options of ``prvr train --resume`` for all trainings, such as ``--device cuda``.
        threads: of each training on a CPU; 0: all.
    """

    def __init__(
        self,
        folder: SweepFolder,
        fit: MemoryFit | FixedNumber,
        events: SweepEvents,
        *,
        words: Sequence[str] = (),
        threads: int = 0,
    ):
        self.folder, self.fit, self.events, self.words, self.threads = folder, fit, events, words, threads
        self.waiting = deque(run for run in folder.plan.runs if folder.state(run) != "finished")
        self.running: list[TrainingProcess] = []
        self.failed: dict[str, str] = {}  # by name of the run: why

    def train(self) -> None:
        """Train all runs that are not finished."""
        try:
            while self.waiting or self.running:
                while self.waiting and self.fit.has_room(self.running):
                    self._start(self.waiting.popleft())
                self.events.running(self.running)
                time.sleep(_LOOK_SECONDS)
                for training in [each for each in self.running if each.process.poll() is not None]:
                    self._end(training)
        except BaseException:
            self._stop()
            raise

    def _start(self, planned: PlannedRun) -> None:
        try:
            resumed = self.folder.state(planned) == "started"
            if not resumed:
                self.folder.create(planned)
        except UserError as problem:
            self._fail(planned, str(problem))
            return
        words = [*self.words, "--data", str(planned.data)]
        run, log = self.folder.run(planned), self.folder.log(planned)
        with hold_interrupts():  # a training that has started is always listed, so that it can be stopped
            training = TrainingProcess(planned, run, log, words, self.threads)
            self.running.append(training)
        self.events.started(training, resumed)

    def _fail(self, planned: PlannedRun, problem: str) -> None:
        self.failed[planned.name] = problem
        self.events.failed(planned, problem)

    def _end(self, training: TrainingProcess) -> None:
        self.running.remove(training)
        if training.process.returncode == 0:
            self.events.finished(training)
            return
        if training.gpu_was_full and self.fit.ran_out(len(self.running)):
            self.waiting.appendleft(training.planned)
            self.events.again(training.planned, self.fit.most)
            return
        self._fail(training.planned, training.problem())

    def _stop(self) -> None:
        """Ask all to stop and wait until they have saved; a second Ctrl-C ends them at once."""
        try:
            for training in self.running:
                training.stop()
            self.events.stopping(self.running)
            for training in self.running:
                training.process.wait()
        except KeyboardInterrupt:
            for training in self.running:
                training.process.kill()
            for training in self.running:
                training.process.wait()


def threads_for(at_once: int, on_cpu: bool) -> int:
    """Threads of each of several trainings on a CPU; 0: as many as torch takes by itself."""
    return max(1, usable_cores() // at_once) if on_cpu and at_once > 1 else 0
