"""How a run is watched: a progress bar, a line per epoch, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prvr.training.metrics import append_metrics, drop_metrics

_SILENCE = 30.0  # seconds after which a log file, which shows no bar, gets a line


class Reporter:
    """Shows and records a run. A silent one (every process but the first) does neither."""

    def __init__(self, folder: Path, console: Console | None, total_steps: int, done_steps: int, from_epoch: int):
        self.folder, self.console = folder, console
        self.board: Any = None
        self.bar: Progress | None = None
        self.spoke_at = time.monotonic()
        if console is None:
            return
        drop_metrics(folder, from_epoch)
        self.board = _tensorboard(folder, from_epoch, console)
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
        if self.bar is None or self.console is None:
            return
        self.bar.update(self.task, advance=1, description=description)
        if loss is None:
            return
        self.bar.update(self.task, loss=f"{loss:.4f}")
        if not self.console.is_terminal and time.monotonic() - self.spoke_at > _SILENCE:
            task = self.bar.tasks[self.task]
            left = "" if task.time_remaining is None else f", {task.time_remaining / 60:.0f} min left"
            self.say(f"  {description}: step {task.completed:.0f}/{task.total:.0f}, loss {loss:.4f}{left}")

    def epoch(self, line: str, record: dict[str, Any]) -> None:
        """Print a line, append a record."""
        if self.console is None:
            return
        self.say(line)
        append_metrics(self.folder, record)
        if self.board is not None:
            for name, value in _flat(record).items():
                if name != "epoch" and math.isfinite(value):
                    self.board.add_scalar(name, value, record["epoch"])
            self.board.flush()

    def say(self, text: str) -> None:
        self.spoke_at = time.monotonic()
        if self.console is not None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.board is not None:
            self.board.close()


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    flat: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}/")
        elif isinstance(value, int | float):
            flat[f"{prefix}{key}"] = float(value)
    return flat


def _tensorboard(folder: Path, from_epoch: int, console: Console) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        console.print('no TensorBoard log: it needs `pip install "prvr[tensorboard]"`', style="dim", markup=False)
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=from_epoch)
