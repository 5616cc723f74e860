"""What a run saves while it trains: checkpoints to continue from, the best epoch, the snapshots that are averaged.

Only the first process writes; the others wait for it where they must. A resumed run computes
again what a killed one had not saved: a checkpoint records exactly how far training was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from prvr.training.config import TrainConfig
from prvr.training.distributed import Processes
from prvr.training.run import Run, RunError
from prvr.training.snapshots import average_snapshots


@dataclass
class Progress:
    """A place in the schedule, and what is needed to continue from there."""

    epoch: int = 0
    step: int = 0  # inside the epoch
    total_steps: int = 0
    backbone_epochs: int = 0  # as planned, or fewer where patience ended the phase
    best_sum_r: float = -math.inf  # of the current phase
    best_epoch: int = -1
    since_best: int = 0
    loss_sums: dict[str, float] = field(default_factory=dict)  # of the current epoch


class Restored(NamedTuple):
    """A checkpoint that was read from disk."""

    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    progress: Progress


class Checkpoints:
    """Writes and reads the states of a run."""

    def __init__(self, run: Run, group: Processes, config: TrainConfig):
        self.run, self.group, self.config = run, group, config
        self.unsaved_best: tuple[str, dict[str, Tensor], dict[str, Any]] | None = None
        self.saved_at = time.monotonic()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old enough for another; the same answer on every process."""
        old_enough = time.monotonic() - self.saved_at >= self.config.checkpoint_seconds
        return bool(self.group.share(old_enough))

    def save(self, progress: Progress, model: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Write a checkpoint; it replaces the one before."""
        self.save_best()
        if self.group.is_first:
            best = progress.best_sum_r if math.isfinite(progress.best_sum_r) else None  # JSON has no infinity
            self.run.save_checkpoint(progress.total_steps, model, optimiser, asdict(progress) | {"best_sum_r": best})
        self.saved_at = time.monotonic()
        self.group.barrier()

    def restore(self) -> Restored | None:
        """Read the newest checkpoint, the same on every process; None before the first."""
        if self.group.is_first:
            self.run.clean_up()
        self.group.barrier()
        checkpoint = self.run.load_checkpoint()
        progress = None if checkpoint is None else checkpoint[2]
        if self.group.share(progress) != progress:
            raise RunError(
                f"process {self.group.rank} finds another checkpoint than the first process: {self.run.path} must be "
                "a folder that all processes share"
            )
        if checkpoint is None:
            return None
        model, optimiser, record = checkpoint
        best = record.pop("best_sum_r", None)
        try:
            return Restored(model, optimiser, Progress(best_sum_r=-math.inf if best is None else best, **record))
        except TypeError as error:
            raise RunError(f"the checkpoint in {self.run.path} was written by another version: {error}") from None

    # -- the best epoch -----------------------------------------------------------------------------------------------

    def remember_best(self, phase: str, model: Mapping[str, Tensor], about: dict[str, Any]) -> None:
        """Keep the best epoch in memory until the next checkpoint."""
        self.unsaved_best = self._best_place(phase), {name: tensor.clone() for name, tensor in model.items()}, about

    def save_best(self) -> None:
        """Write the best epoch, if it is not on disk yet."""
        if self.unsaved_best is not None and self.group.is_first:
            place, weights, about = self.unsaved_best
            self.run.save_weights(place, weights, **about)
        self.unsaved_best = None

    def backbone_best(self, epoch: int) -> dict[str, Tensor]:
        """The best weights of the backbone's phase, which must be those of ``epoch``."""
        self.save_best()
        self.group.barrier()
        tensors, about = self.run.weights(self._best_place("backbone"))
        if about["epoch"] != epoch:
            raise RunError(
                f"{self.run.path} holds epoch {about['epoch']} as the backbone's best, expected {epoch}: train again"
            )
        return tensors

    def _best_place(self, phase: str) -> str:
        """Each phase has its own folder, because a resumed run may be back in the earlier phase."""
        return "backbone-best" if phase == "backbone" and self.config.trace_stage.epochs > 0 else "best"

    # -- snapshots and final weights ----------------------------------------------------------------------------------

    def snapshot(self, progress: Progress, epochs: int, model: Mapping[str, Tensor]) -> None:
        """Keep the last epochs of the final phase, for the average. With patience, that phase may end at any epoch."""
        stage = self.config.trace_stage
        in_final_phase = stage.epochs == 0 or progress.epoch >= progress.backbone_epochs
        near_the_end = progress.epoch >= epochs - stage.snapshots
        may_end_early = stage.epochs == 0 and self.config.backbone_stage.patience > 0
        if self.group.is_first and in_final_phase and (near_the_end or may_end_early):
            self.run.save_weights(_snapshot(progress.epoch), model, epoch=progress.epoch)
            self.run.drop_weights(_snapshot(progress.epoch - stage.snapshots))

    def finish(self, last: int, model: Mapping[str, Tensor]) -> None:
        """Write the final weights, ``last`` and ``average``, next to ``best``. It may be called again."""
        if not self.group.is_first:
            return
        kept = [epoch for epoch in range(last + 1) if self.run.has_weights(_snapshot(epoch))]
        if not self.run.has_weights("average"):
            phase = self.config.trace_stage.epochs or last + 1
            if len(kept) < min(self.config.trace_stage.snapshots, phase):
                raise RunError(f"{self.run.path} has lost the snapshots that its average needs: use other --weights")
            self.run.save_weights("last", model, epoch=last)
            snapshots = [self.run.weights(_snapshot(epoch))[0] for epoch in kept]
            self.run.save_weights(
                "average", average_snapshots(snapshots) if snapshots else model, epochs=kept or [last]
            )
        for epoch in kept:
            self.run.drop_weights(_snapshot(epoch))
        self.run.drop_weights("backbone-best")


def _snapshot(epoch: int) -> str:
    return f"epoch-{epoch:04d}"
