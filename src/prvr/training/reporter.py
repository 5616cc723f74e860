"""What is shown of a run: a progress bar, a line per epoch, ``metrics.jsonl``, and loggers such as TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prvr.terminal import Console
from prvr.training.loggers import EpochLoggers
from prvr.training.metrics import append_metrics, drop_metrics
from prvr.training.schedule import PhaseEpoch
from prvr.training.validation import Validation

_SILENCE = 30.0  # a log file shows no bar: after this many seconds it gets a line


@dataclass(frozen=True)
class EpochSummary:
    """What is reported of one epoch."""

    now: PhaseEpoch
    epochs: int  # of the whole run
    seconds: float  # of its steps
    losses: dict[str, float]  # mean of each loss term
    rate: float  # learning rate of the last step
    fusion_weight: float
    validated_on: str
    validation: Validation | None  # None: not validated after this epoch

    @property
    def line(self) -> str:
        """For people."""
        total = sum(self.losses.values())
        line = f"epoch {self.now.epoch + 1:3d}/{self.epochs} {self.now.phase:8s} loss {total:.4f}"
        if self.validation is not None:
            line += f"  {self.validated_on} SumR {self.validation.final.sum_r:6.2f}"
            if self.fusion_weight > 0:
                line += f" (base {self.validation.base.sum_r:.2f}, λ {self.fusion_weight:.3f})"
        return f"{line}  {self.seconds:.1f} s"

    @property
    def record(self) -> dict[str, Any]:
        """For ``metrics.jsonl``."""
        record: dict[str, Any] = {"epoch": self.now.epoch, "phase": self.now.phase, "seconds": self.seconds}
        record |= {"loss": self.losses, "rate": self.rate}
        if self.validation is not None:
            record |= {"fusion_weight": self.fusion_weight, "validated_on": self.validated_on}
            record |= {"base": self.validation.base.as_dict(), "final": self.validation.final.as_dict()}
            if self.validation.registers is not None:
                record["registers"] = asdict(self.validation.registers)
        return record


class Reporter:
    """Shows and records a run.

    Args:
        folder: the run's.
        console: where to print; None (every process but the first): nothing is shown or recorded.
        total_steps: of the whole run.
        done_steps: how many of them an earlier start has taken.
        from_epoch: the epoch that training begins or continues with; later records are removed.
        loggers: names of further places that epochs are shown in (``prvr.training.loggers``).
        about: settings of the training, for those.
    """

    def __init__(
        self,
        folder: Path,
        console: Console | None,
        total_steps: int,
        done_steps: int,
        from_epoch: int,
        loggers: Sequence[str] = (),
        about: Mapping[str, Any] | None = None,
    ):
        self.folder, self.console = folder, console
        self.loggers: EpochLoggers | None = None
        self.bar: Progress | None = None
        self.printed_at = time.monotonic()
        if console is None:
            return
        drop_metrics(folder, from_epoch)
        self.loggers = EpochLoggers(loggers, folder, from_epoch, about or {}, self.say)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("training", total=total_steps, completed=done_steps, loss="–")
        self.bar.start()

    def step(self, description: str, loss: float | None) -> None:
        """Advance the bar by one step. ``loss`` is None where it was not read from the device."""
        if self.bar is None or self.console is None:
            return
        self.bar.update(self.task, advance=1, description=description)
        if loss is None:
            return
        self.bar.update(self.task, loss=f"{loss:.4f}")
        if not self.console.is_terminal and time.monotonic() - self.printed_at > _SILENCE:
            task = self.bar.tasks[self.task]
            left = "" if task.time_remaining is None else f", {task.time_remaining / 60:.0f} min left"
            self.say(f"  {description}: step {task.completed:.0f}/{task.total:.0f}, loss {loss:.4f}{left}")

    def epoch(self, summary: EpochSummary) -> None:
        """Print an epoch's line and append its record."""
        if self.console is None:
            return
        self.say(summary.line)
        record = summary.record
        append_metrics(self.folder, record)
        if self.loggers is not None:
            self.loggers.log(record)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.printed_at = time.monotonic()
        if self.console is not None:
            self.console.print(text, highlight=False, soft_wrap=True)

    def close(self, exit_code: int = 0) -> None:
        """End the bar and the loggers; ``exit_code`` is 0 for a training that came to its end."""
        if self.bar is not None:
            self.bar.stop()
        if self.loggers is not None:
            self.loggers.close(exit_code)
