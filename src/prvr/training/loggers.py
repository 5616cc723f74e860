"""Where a training's epochs are shown besides the terminal: TensorBoard, and Weights & Biases.

Each is chosen by name (``prvr train --log tensorboard,wandb``). One that fails says so once and is left out; training
goes on without it.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from prvr.errors import MissingExtra, did_you_mean
from prvr.files import write_whole
from prvr.training.config import ConfigError

LOGGERS = ("tensorboard", "wandb")
_WANDB_ID = "wandb-id"  # file in the run's folder: under which name a resumed training goes on


class EpochLogger(Protocol):
    """Shows the numbers of each epoch."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None: ...

    def close(self, exit_code: int) -> None:
        """End the log; ``exit_code`` is 0 for a training that came to its end."""


def parse_loggers(text: str | None) -> tuple[str, ...]:
    """Names of loggers, as the command line takes them: ``tensorboard,wandb``, ``none``, or None for the usual ones.

    Usually TensorBoard's files are written, if it is installed.

    Raises:
        ConfigError: a name is unknown.
        MissingExtra: a package is not installed.

    >>> parse_loggers("none")
    ()
    """
    if text is None:
        return ("tensorboard",) if find_spec("tensorboard") else ()
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in LOGGERS:
            hint = did_you_mean(name, LOGGERS)
            raise ConfigError(f"--log {text}: no logger {name!r}.{hint} There are: {', '.join(LOGGERS)}, or none")
        if not find_spec(name):
            raise MissingExtra(f"{name}, which --log names,", name)
    return tuple(dict.fromkeys(names))


class EpochLoggers:
    """Several loggers as one, none of which can stop a training.

    Args:
        names: which, of ``LOGGERS``.
        folder: the run's.
        from_epoch: the epoch that training begins or continues with.
        about: settings of the training, as nested tables.
        warn: called with one sentence about a logger that fails.
    """

    def __init__(
        self,
        names: Iterable[str],
        folder: Path,
        from_epoch: int,
        about: Mapping[str, Any],
        warn: Callable[[str], None],
    ):
        self.warn = warn
        self.loggers: dict[str, EpochLogger] = {}
        kinds: dict[str, Callable[[], EpochLogger]] = {
            "tensorboard": lambda: TensorBoardLogger(folder, from_epoch),
            "wandb": lambda: WandbLogger(folder, about),
        }
        for name in names:
            self._try(name, lambda name=name: self.loggers.__setitem__(name, kinds[name]()))  # type: ignore[misc]

    def log(self, record: Mapping[str, Any]) -> None:
        """Show an epoch's record, as it is in ``metrics.jsonl``."""
        values = {name: value for name, value in flat_numbers(record).items() if name != "epoch"}
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        for name, logger in list(self.loggers.items()):
            self._try(name, lambda logger=logger: logger.log(record["epoch"], finite))  # type: ignore[misc]

    def close(self, exit_code: int) -> None:
        for name, logger in list(self.loggers.items()):
            self._try(name, lambda logger=logger: logger.close(exit_code))  # type: ignore[misc]

    def _try(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as problem:  # whatever another package raises: training is worth more than its picture
            self.loggers.pop(name, None)
            first = next(iter(str(problem).strip().splitlines()), "") or type(problem).__name__
            self.warn(f"{name} failed ({first}): training goes on without it")


class TensorBoardLogger:
    """Files for TensorBoard in ``RUN/tensorboard``; a resumed run replaces the epochs that it repeats."""

    def __init__(self, folder: Path, from_epoch: int):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=from_epoch)

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def close(self, exit_code: int) -> None:
        self.writer.close()


class WandbLogger:
    """A run of Weights & Biases, whose own variables apply (``WANDB_PROJECT``, ``WANDB_ENTITY``, ``WANDB_MODE`` …).

    Its files are in ``RUN/wandb``. A resumed training goes on in the same run: its name is kept in ``RUN/wandb-id``.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]):
        import wandb

        kept = folder / _WANDB_ID
        known = kept.read_text("utf-8").strip() if kept.is_file() else ""
        name = known or secrets.token_hex(4)
        # The terminal shows a progress bar, which is no log; and a hub that is away must not hold up the end for long.
        wanted = {"console": "off", "finish_timeout": 60.0}
        settings = {key: value for key, value in wanted.items() if key in wandb.Settings.model_fields}
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "prvr",
            id=name,
            name=folder.resolve().name,
            dir=folder,
            config=dict(about),
            resume="allow",
            settings=wandb.Settings(**settings),
        )
        write_whole(kept, name + "\n")
        # Epochs are the axis, because a resumed training repeats some; wandb's own count of steps cannot go back.
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch")

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        self.run.log({"epoch": epoch, **values})

    def close(self, exit_code: int) -> None:
        self.run.finish(exit_code=exit_code)


def flat_numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of nested tables, by path.

    >>> flat_numbers({"loss": {"nce": 0.5}, "phase": "trace"})
    {'loss/nce': 0.5}
    """
    flat: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= flat_numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float):
            flat[f"{prefix}{key}"] = float(value)
    return flat
