"""The training loop: one continuous run of two phases that can be killed anywhere and continued.

Randomness has no state to save: batches follow from (seed, epoch), dropout and negatives from (seed, step). So a
checkpoint is weights, optimiser and a place in the schedule, and a resumed run is the run it would have been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from prvr.data import epoch_batches, prefetch
from prvr.errors import UserError
from prvr.tokens import TrainBatch
from prvr.training import optim
from prvr.training.config import TrainConfig
from prvr.training.distributed import Processes
from prvr.training.first_stage import listed_negatives
from prvr.training.interrupt import Interrupted, watch_interrupt
from prvr.training.keeping import Keeper, Progress
from prvr.training.model import TraceModel
from prvr.training.phases import Phases, uses_bf16
from prvr.training.reporting import Reporter
from prvr.training.run import Run, RunError
from prvr.training.schedule import Moment, backbone_rate, fusion_weight, moment, trace_rate
from prvr.training.seeding import mix
from prvr.training.splits import place, training_splits
from prvr.training.step import Step
from prvr.training.validate import VIDEOS_AT_ONCE, Validation, validate

_LOSS_EVERY_SECONDS = 0.5  # reading the loss waits for the device, so it is done rarely
_ASK_EVERY_STEPS = 10


class TrainingError(UserError):
    """Training cannot go on; says why and what to try."""


class Trainer:
    """Trains one configuration on one dataset into one run folder."""

    def __init__(self, config: TrainConfig, data: str | Path, run: Run, group: Processes, console: Console | None):
        self.config, self.run, self.group, self.console = config, run, group, console
        splits = training_splits(config, data)
        self.train_set = place(splits.train, group.device)
        self.validation_set = place(splits.validation, group.device)
        self.validated_on = splits.validated_on
        self.fingerprint = splits.fingerprint
        torch.manual_seed(config.seed)
        self.model = TraceModel.from_config(config).to(group.device)
        self.model.bf16 = uses_bf16(config, group.device)
        self.model.world = group.world
        self.progress = Progress(backbone_epochs=config.backbone_stage.epochs)
        self.optimiser: torch.optim.Optimizer | None = None
        self.step: Step | None = None
        self.phase: str | None = None
        self.phases = Phases(config, self.model, group)
        self.rate = 0.0
        self.loss_sums: dict[str, Tensor | float] = {}  # of the current epoch, left on the device
        self.keeper = Keeper(run, group, config)
        self.listed = listed_negatives(self.model.backbone, self.train_set, config.seed)
        self.steps = len(self._plan(0))  # per epoch
        if self.steps == 0:
            raise TrainingError(f"{len(self.train_set)} training videos make no batch: two are the least")

    # -- the run ------------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """From wherever the run stands to its end."""
        self._restore()
        if self.progress.epoch >= self._epochs() and self.run.has_weights("average"):
            if self.console is not None:
                self.console.print(f"{self.run.path} is finished: nothing to do", markup=False, soft_wrap=True)
            return
        console = self.console if self.group.is_first else None
        done = self.progress.total_steps
        reporter = Reporter(self.run.path, console, self._epochs() * self.steps, done, self.progress.epoch)
        if self.model.backbone.notice:
            reporter.say(self.model.backbone.notice)
        try:
            with watch_interrupt() as interrupted:
                while self.progress.epoch < self._epochs():
                    self._epoch(reporter, interrupted)
                    self._between_epochs()
                    if self.progress.epoch < self._epochs() and self.group.share(interrupted.asked):
                        raise interrupted
                self._finish(reporter)
        except Interrupted:
            self._checkpoint()
            reporter.say(f"stopped; `{self._resume_command()}` goes on from here")
            raise
        finally:
            reporter.close()

    def _epoch(self, reporter: Reporter, interrupted: Interrupted) -> None:
        progress, config = self.progress, self.config
        now = moment(progress.epoch, progress.backbone_epochs, config.trace_stage)
        self._enter(now)
        started = time.perf_counter()
        read_at = 0.0
        for batch in self._batches(progress.epoch, progress.step):
            terms = self._step(batch, now)
            for name, value in terms.items():
                self.loss_sums[name] = self.loss_sums.get(name, 0.0) + value.double()
            progress.step += 1
            progress.total_steps += 1
            loss = None
            if time.perf_counter() - read_at > _LOSS_EVERY_SECONDS:
                loss, read_at = float(torch.stack(list(terms.values())).sum()), time.perf_counter()
                _require_finite(loss, progress)
            reporter.step(f"epoch {progress.epoch + 1}/{self._epochs()} {now.phase}", loss)
            if progress.step < self.steps:
                if self._asked_to_stop(interrupted):
                    raise interrupted
                if config.checkpoint_steps and progress.step % config.checkpoint_steps == 0:
                    self._checkpoint()
        means = {name: float(total) / self.steps for name, total in self.loss_sums.items()}
        _require_finite(sum(means.values()), progress)
        seconds = time.perf_counter() - started
        validation = self._validate(now)
        self._report(reporter, now, means, seconds, validation)
        self._remember(now, validation)

    def _step(self, batch: TrainBatch, now: Moment) -> dict[str, Tensor]:
        key = mix(self.config.seed, self.progress.total_steps)
        torch.manual_seed(mix(key, self.group.rank))  # dropout and perturbation, each process its own
        generator = torch.Generator(self.group.device).manual_seed(key)  # negatives, the same on all
        assert self.optimiser is not None
        assert self.step is not None
        self.rate = self._rate(now)
        optim.set_rate(self.optimiser, self.rate)
        return self.step(batch, now, generator)

    def _rate(self, now: Moment) -> float:
        config, steps = self.config, self.steps
        if now.phase == "backbone":
            stage = config.backbone_stage
            step = now.epoch * steps + self.progress.step
            return stage.learning_rate * backbone_rate(step, stage.epochs * steps, stage)
        step = now.trace_epoch * steps + self.progress.step
        return config.trace_stage.learning_rate * trace_rate(step, steps, config.trace_stage)

    # -- phases -------------------------------------------------------------------------------------------------------

    def _enter(self, now: Moment) -> None:
        """Set up optimiser and wrapping when a phase begins (or is resumed)."""
        if now.phase == self.phase:
            self.model.enter(now)
            return
        self.model.enter(now)
        if self.optimiser is None or (now.uses_trace and isinstance(self.optimiser, optim.BertAdam)):
            self.optimiser = self.phases.optimiser(now)
        left = (self._epochs() - self.progress.epoch) * self.steps
        self.step = self.phases.step(now, self.optimiser, left)
        self.phase = now.phase

    def _between_epochs(self) -> None:
        """Close an epoch: keep a snapshot, hand over between phases, write the checkpoint."""
        progress, config = self.progress, self.config
        self.keeper.snapshot(progress, self._epochs(), self.model.state_dict())
        ended = moment(progress.epoch, progress.backbone_epochs, config.trace_stage)
        if ended.phase == "backbone" and self._backbone_is_done():
            progress.backbone_epochs = progress.epoch + 1
            self._hand_over()
        progress.epoch, progress.step = progress.epoch + 1, 0
        self.loss_sums = {}
        if self.keeper.due or progress.epoch == self._epochs():
            self._checkpoint()

    def _backbone_is_done(self) -> bool:
        progress, stage = self.progress, self.config.backbone_stage
        out_of_patience = stage.patience > 0 and progress.since_best > stage.patience
        return out_of_patience or progress.epoch + 1 == progress.backbone_epochs

    def _hand_over(self) -> None:
        """End of the backbone phase: keep its weights for comparison, start counting the best epoch afresh."""
        progress, stage = self.progress, self.config.backbone_stage
        if self.config.trace_stage.epochs == 0:
            return
        epoch = progress.epoch
        if stage.hand_over == "best" and progress.best_epoch >= 0:
            self.model.load_state_dict(self.keeper.backbone_best(progress.best_epoch))
            epoch = progress.best_epoch
        if self.group.is_first:
            self.run.save_weights("backbone", self.model.state_dict(), epoch=epoch, kept=stage.hand_over)
        progress.best_sum_r, progress.best_epoch, progress.since_best = -math.inf, -1, 0
        self.optimiser, self.phase = None, None

    def _finish(self, reporter: Reporter) -> None:
        self.keeper.finish(self.progress.epoch - 1, self.model.state_dict())
        reporter.say(f"done: {self.run.path} (weights: {self.config.selection}); next: prvr eval {self.run.path}")

    def _resume_command(self) -> str:
        command = str(self.run.record.get("command", "prvr train"))
        return command if "--resume" in command.split() else f"{command} --resume"

    # -- validation ---------------------------------------------------------------------------------------------------

    def _validate(self, now: Moment) -> Validation | None:
        config, last = self.config, now.epoch + 1 == self._epochs()
        due = (now.epoch + 1) % config.validate_every == 0 or last
        if not due:
            return None
        told = None
        if self.group.is_first:
            weight = fusion_weight(now.trace_epoch, config.trace.fusion_weight, config.trace_stage)
            # A GPU waits less for its host. A batch in training also holds what its gradients need.
            together = 2 * config.batch_size if self.group.device.type == "cuda" else 0
            told = validate(self.model, self.validation_set, weight, max(together, VIDEOS_AT_ONCE)).to_plain()
        self.model.enter(now)
        return Validation.from_plain(self.group.share(told))

    def _remember(self, now: Moment, validation: Validation | None) -> None:
        progress = self.progress
        if validation is None:
            return
        if validation.final.sum_r > progress.best_sum_r:
            progress.best_sum_r, progress.best_epoch, progress.since_best = validation.final.sum_r, now.epoch, 0
            weight = fusion_weight(now.trace_epoch, self.config.trace.fusion_weight, self.config.trace_stage)
            about = {"epoch": now.epoch, "fusion_weight": weight, "validation": validation.final.as_dict()}
            self.keeper.remember_best(now.phase, self.model.state_dict(), about)
        else:
            progress.since_best += 1

    def _report(
        self, reporter: Reporter, now: Moment, means: dict[str, float], seconds: float, validation: Validation | None
    ) -> None:
        line = f"epoch {now.epoch + 1:3d}/{self._epochs()} {now.phase:8s} loss {sum(means.values()):.4f}"
        record: dict[str, Any] = {"epoch": now.epoch, "phase": now.phase, "seconds": seconds, "loss": means}
        record["rate"] = self.rate
        if validation is not None:
            weight = fusion_weight(now.trace_epoch, self.config.trace.fusion_weight, self.config.trace_stage)
            record |= {"fusion_weight": weight, "validated_on": self.validated_on}
            record |= {"base": validation.base.as_dict(), "final": validation.final.as_dict()}
            line += f"  {self.validated_on} SumR {validation.final.sum_r:6.2f}"
            if weight > 0:
                line += f" (base {validation.base.sum_r:.2f}, λ {weight:.3f})"
        reporter.epoch(f"{line}  {seconds:.1f} s", record)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        self.progress.loss_sums = {name: float(total) for name, total in self.loss_sums.items()}
        # Before anything is written: a ruined model must not replace a good checkpoint.
        _require_finite(sum(self.progress.loss_sums.values()), self.progress)
        state = {} if self.optimiser is None else optim.optimiser_tensors(self.optimiser, self._optimised())
        self.keeper.checkpoint(self.progress, self.model.state_dict(), state)

    def _restore(self) -> None:
        found = self.keeper.restore()
        if found is None:
            return
        self.progress, state = found.progress, found.optimiser
        self.loss_sums = dict(self.progress.loss_sums)
        try:
            self.model.load_state_dict(found.model)
        except RuntimeError as error:
            raise RunError(f"the checkpoint in {self.run.path} does not fit this run: {error}") from None
        if self.progress.epoch < self._epochs():
            now = moment(self.progress.epoch, self.progress.backbone_epochs, self.config.trace_stage)
            if state:
                self.optimiser = self.phases.optimiser(now)
                optim.restore_optimiser(self.optimiser, self._optimised(), state)

    def _optimised(self) -> nn.Module:
        return self.model.backbone if isinstance(self.optimiser, optim.BertAdam) else self.model

    # -- data ---------------------------------------------------------------------------------------------------------

    def _epochs(self) -> int:
        return self.progress.backbone_epochs + self.config.trace_stage.epochs

    def _plan(self, epoch: int) -> list[Tensor]:
        c, g = self.config, self.group
        videos = len(self.train_set)
        return epoch_batches(videos, c.batch_size, seed=c.seed, epoch=epoch, rank=g.rank, world=g.world)

    def _batches(self, epoch: int, from_step: int) -> Iterator[TrainBatch]:
        device = self.group.device
        plan = list(enumerate(self._plan(epoch)))[from_step:]
        made = (self.train_set.train_batch(rows, self._draw(epoch, step)).to(device) for step, rows in plan)
        on_device = self.train_set.prepared.frames.device.type == "cuda"  # then a batch is a few gathers
        return made if on_device else prefetch(made)

    def _draw(self, epoch: int, step: int) -> Callable[[Tensor], Tensor] | None:
        """How a batch's negatives are drawn from the first stage's list; None for a method that needs none."""
        if self.listed is None:
            return None
        return self.listed.drawing(mix(mix(self.config.seed, epoch), step))

    def _asked_to_stop(self, interrupted: Interrupted) -> bool:
        """Whether to stop here: all processes must leave at the same step, so together they ask now and then."""
        if self.group.world == 1:
            return interrupted.asked
        return self.progress.step % _ASK_EVERY_STEPS == 0 and bool(self.group.share(interrupted.asked))


def _require_finite(loss: float, progress: Progress) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} at epoch {progress.epoch + 1}, step {progress.step}: "
            "try a lower learning rate or --precision fp32; the last checkpoint is intact"
        )
