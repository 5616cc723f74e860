"""The training loop: one continuous run of two phases that can be killed anywhere and continued.

Randomness has no state to save: batches follow from (seed, epoch), dropout and negatives from (seed, step). So a
checkpoint is weights, optimiser state and a place in the schedule, and a resumed run equals one that never stopped.
"""

from __future__ import annotations

import math
import shlex
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from prvr.errors import Interrupted, UserError
from prvr.processor import KeptMemory, keep_freed_memory
from prvr.scoring import FEWEST_QUERIES
from prvr.terminal import Console
from prvr.tokens import TrainBatch
from prvr.training import optim
from prvr.training.batches import TrainingBatches
from prvr.training.calibration import calibrate_run, read_calibration
from prvr.training.checkpoints import Checkpoints, Progress
from prvr.training.config import TrainConfig, config_to_dict
from prvr.training.distributed import Processes
from prvr.training.first_stage import listed_negatives
from prvr.training.interrupt import watch_interrupt
from prvr.training.loggers import parse_loggers
from prvr.training.model import TraceModel
from prvr.training.phases import PhaseSetup
from prvr.training.precision import uses_bf16
from prvr.training.reporter import EpochSummary, Reporter
from prvr.training.run import Run, RunError
from prvr.training.schedule import PhaseEpoch, fusion_weight, learning_rate, phase_at
from prvr.training.seeds import mix_seed
from prvr.training.splits import move_if_it_fits, training_splits
from prvr.training.start import load_start
from prvr.training.step import Step
from prvr.training.validation import VIDEOS_AT_ONCE, Validation, validate
from prvr.training.witness_run import fit_run_witness

_LOSS_EVERY_SECONDS = 0.5  # reading the loss waits for the device, so it is done rarely
_STOP_CHECK_EVERY_STEPS = 10  # several processes agree on whether to stop after this many steps


class TrainingError(UserError):
    """Training cannot continue. The message says why and what to try."""


class Trainer:
    """Trains one configuration on one dataset into one run folder.

    Args:
        config: what to train.
        data: folder of the dataset.
        run: where weights, checkpoints and metrics go; it must have been created.
        group: this process among those that train together.
        console: where progress is shown; None: nowhere, and no metrics are written.
        loggers: where epochs are shown besides (``LOGGERS``); None: in TensorBoard's files, if it is installed.
    """

    def __init__(
        self,
        config: TrainConfig,
        data: str | Path,
        run: Run,
        group: Processes,
        console: Console | None,
        loggers: Sequence[str] | None = None,
    ):
        self.config, self.run, self.group, self.console = config, run, group, console
        self.loggers = parse_loggers(None) if loggers is None else tuple(loggers)
        self.kept_memory = KeptMemory()
        if group.device.type == "cpu":
            keep_freed_memory()
        splits = training_splits(config, data)
        self.train_set = train_set = move_if_it_fits(splits.train, group.device)
        self.validation_set = move_if_it_fits(splits.validation, group.device)
        self.validated_on = splits.validated_on
        self.fingerprint = splits.fingerprint
        torch.manual_seed(config.seed)
        self.model = TraceModel.from_config(config).to(group.device)
        self.model.world = group.world
        if config.alike:
            self.model.usual_meaning = train_set.usual_meaning.to(group.device)
        self.setup = PhaseSetup(config, self.model, group)
        self.checkpoints = Checkpoints(run, group, config)
        self.progress = Progress(backbone_epochs=config.backbone_stage.epochs)
        self.loss_sums: dict[str, Tensor | float] = {}  # of the current epoch, left on the device
        self.phase: str | None = None  # the phase that the optimiser and the step below belong to
        self.optimiser: torch.optim.Optimizer | None = None
        self.step: Step | None = None
        listed = listed_negatives(self.model.backbone, train_set, config.seed)
        self.batches = TrainingBatches(train_set, config, group, listed)
        if self.batches.steps == 0 and self.model.backbone.trainable:
            raise TrainingError(f"{len(train_set)} training videos make no batch: at least two are needed")

    # -- the run ------------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Train from the newest checkpoint, or from the start, to the end."""
        if not self.model.backbone.trainable:
            self._keep_as_it_is()
            return
        self._restore()
        if self._is_trained:
            self._finish_what_follows()
            return
        console = self.console if self.group.is_first else None
        total, done = self._epochs() * self.batches.steps, self.progress.total_steps
        about = config_to_dict(self.config)
        reporter = Reporter(self.run.path, console, total, done, self.progress.epoch, self.loggers, about)
        exit_code = 1
        if self.model.backbone.notice:
            reporter.say(self.model.backbone.notice)
        self._settle_precision(reporter)
        try:
            with watch_interrupt() as interrupted:
                while self.progress.epoch < self._epochs():
                    self._epoch(reporter, interrupted)
                    self._between_epochs()
                    if self.progress.epoch < self._epochs() and self.group.share(interrupted.requested):
                        raise interrupted
                self.checkpoints.finish(self.progress.epoch - 1, self.model.state_dict())
                self._calibrate(interrupted)
                weights = f"(weights: {self.config.selection})"
                reporter.say(f"done: {self.run.path} {weights}; next: prvr eval {self.run.path}")
                exit_code = 0
        except Interrupted as stopped:
            exit_code = 128 + (stopped.args[0] if stopped.args else signal.SIGINT)
            if not self._is_trained:
                self._checkpoint()
            reporter.say(self._stopped())
            raise
        finally:
            reporter.close(exit_code)

    @property
    def _is_trained(self) -> bool:
        """Whether all epochs are done; calibration and a witness may be left."""
        return self.progress.epoch >= self._epochs() and self.run.has_weights("average")

    def _finish_what_follows(self) -> None:
        """What an earlier start left after its last epoch, if anything."""
        text = f"{self.run.path} is finished" + ("" if self._lacks_witness else ": nothing to do")
        try:
            with watch_interrupt() as interrupted:
                self._calibrate(interrupted)
        except Interrupted:
            self._print(self._stopped())
            raise
        self._print(text)

    def _print(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, highlight=False, soft_wrap=True)

    def _stopped(self) -> str:
        command = shlex.join(["prvr", "train", "--resume", str(self.run.path)])
        return f"stopped; `{command}` " + ("trains the witness anew" if self._is_trained else "continues from here")

    def _settle_precision(self, reporter: Reporter) -> None:
        """Use the type of numbers that the run was begun in; a run that begins here remembers its own."""
        begun_in = self.run.begun_in
        self.model.bf16 = self.group.share(uses_bf16(self.run, self.group.device))
        precision = "bf16" if self.model.bf16 else "fp32"
        if begun_in is None and self.progress.total_steps > 0:
            if self.config.precision == "auto":
                reporter.say(
                    f"an earlier version began this run, and did not note its precision: it goes on in {precision}"
                )
        elif begun_in is None and self.group.is_first:
            self.run.set_begun_in(precision)
        elif begun_in not in (None, precision):
            reporter.say(
                f"this run was begun in {begun_in}, which is not faster on this device: it continues in {precision} "
                "and ends with slightly different weights"
            )

    def _keep_as_it_is(self) -> None:
        """Make a run of a method without parameters, so that every command that takes a run can use it."""
        if self.group.is_first:
            self.run.save_weights("last", self.model.state_dict(), epoch=-1, untrained=True)
        self._calibrate()
        if self.group.is_first:
            self._print(f"{self.config.method} has nothing to train; next: prvr eval {self.run.path}")

    def _epoch(self, reporter: Reporter, interrupted: Interrupted) -> None:
        progress = self.progress
        now = phase_at(progress.epoch, progress.backbone_epochs, self.config.trace_stage)
        self._enter(now)
        started = time.perf_counter()
        rate = self._steps(now, reporter, interrupted)
        losses = {name: float(total) / self.batches.steps for name, total in self.loss_sums.items()}
        _require_finite(sum(losses.values()), progress)
        seconds = time.perf_counter() - started
        validation = self._validate(now)
        weight = self._fusion_weight(now)
        reporter.epoch(EpochSummary(now, self._epochs(), seconds, losses, rate, weight, self.validated_on, validation))
        if validation is not None:
            self._compare_with_best(now, validation)

    def _steps(self, now: PhaseEpoch, reporter: Reporter, interrupted: Interrupted) -> float:
        """Take the steps that are left of an epoch; returns the last one's learning rate."""
        progress, steps = self.progress, self.batches.steps
        read_at = rate = 0.0
        for batch in self.batches.epoch(progress.epoch, progress.step):
            rate = learning_rate(now, progress.step, steps, self.config)
            terms = self._step(batch, now, rate)
            for name, value in terms.items():
                self.loss_sums[name] = self.loss_sums.get(name, 0.0) + value.double()
            progress.step += 1
            progress.total_steps += 1
            if self.group.device.type == "cpu":
                self.kept_memory.limit()
            loss = None
            if time.perf_counter() - read_at > _LOSS_EVERY_SECONDS:
                loss, read_at = float(torch.stack(list(terms.values())).sum()), time.perf_counter()
                _require_finite(loss, progress)
            reporter.step(f"epoch {progress.epoch + 1}/{self._epochs()} {now.phase}", loss)
            if progress.step < steps:
                if self._must_stop(interrupted):
                    raise interrupted
                if self.config.checkpoint_steps and progress.step % self.config.checkpoint_steps == 0:
                    self._checkpoint()
        return rate

    def _step(self, batch: TrainBatch, now: PhaseEpoch, rate: float) -> dict[str, Tensor]:
        key = mix_seed(self.config.seed, self.progress.total_steps)
        torch.manual_seed(mix_seed(key, self.group.rank))  # dropout and perturbation, each process its own
        generator = torch.Generator(self.group.device).manual_seed(key)  # negatives, the same on all
        assert self.optimiser is not None
        assert self.step is not None
        optim.set_rate(self.optimiser, rate)
        return self.step(batch, now, generator)

    def _must_stop(self, interrupted: Interrupted) -> bool:
        """Whether to stop after this step. All processes must leave at the same one, so they agree now and then."""
        if self.group.world == 1:
            return interrupted.requested
        now_and_then = self.progress.step % _STOP_CHECK_EVERY_STEPS == 0
        return now_and_then and bool(self.group.share(interrupted.requested))

    # -- phases -------------------------------------------------------------------------------------------------------

    def _epochs(self) -> int:
        """Epochs of the whole run; fewer than planned where patience ended the backbone's phase."""
        return self.progress.backbone_epochs + self.config.trace_stage.epochs

    def _enter(self, now: PhaseEpoch) -> None:
        """Set the model up for an epoch; where a phase begins (or is resumed), also its optimiser and step."""
        self.model.enter(now)
        if now.phase == self.phase:
            return
        if self.optimiser is None or (now.uses_trace and isinstance(self.optimiser, optim.BertAdam)):
            self.optimiser = self.setup.optimiser(now)
        steps_left = (self._epochs() - self.progress.epoch) * self.batches.steps
        self.step = self.setup.step(now, self.optimiser, steps_left)
        self.phase = now.phase

    def _between_epochs(self) -> None:
        """Close an epoch: keep a snapshot, hand over between phases, write the checkpoint."""
        progress, config = self.progress, self.config
        self.checkpoints.snapshot(progress, self._epochs(), self.model.state_dict())
        ended = phase_at(progress.epoch, progress.backbone_epochs, config.trace_stage)
        if ended.phase == "backbone" and self._backbone_is_done():
            progress.backbone_epochs = progress.epoch + 1
            self._hand_over()
        progress.epoch, progress.step = progress.epoch + 1, 0
        self.loss_sums = {}
        if self.checkpoints.due or progress.epoch == self._epochs():
            self._checkpoint()

    def _backbone_is_done(self) -> bool:
        progress, stage = self.progress, self.config.backbone_stage
        out_of_patience = stage.patience > 0 and progress.since_best > stage.patience
        return out_of_patience or progress.epoch + 1 == progress.backbone_epochs

    def _hand_over(self) -> None:
        """End the backbone's phase: keep its weights for comparison and look for the best epoch from here."""
        progress, stage = self.progress, self.config.backbone_stage
        if self.config.trace_stage.epochs == 0:
            return
        epoch = progress.epoch
        if stage.hand_over == "best" and progress.best_epoch >= 0:
            self.model.load_state_dict(self.checkpoints.backbone_best(progress.best_epoch))
            epoch = progress.best_epoch
        if self.group.is_first:
            self.run.save_weights("backbone", self.model.state_dict(), epoch=epoch, kept=stage.hand_over)
        progress.best_sum_r, progress.best_epoch, progress.since_best = -math.inf, -1, 0
        self.optimiser, self.phase = None, None

    # -- validation ---------------------------------------------------------------------------------------------------

    def _fusion_weight(self, now: PhaseEpoch) -> float:
        return fusion_weight(now.trace_epoch, self.config.trace.fusion_weight, self.config.trace_stage)

    def _validate(self, now: PhaseEpoch) -> Validation | None:
        """Validate where it is due. The first process does it and shares the result."""
        is_last = now.epoch + 1 == self._epochs()
        if not is_last and (now.epoch + 1) % self.config.validate_every != 0:
            return None
        plain = None
        if self.group.is_first:
            # A GPU waits less for its host in larger batches; they fit, since training also holds gradients.
            together = 2 * self.config.batch_size if self.group.device.type == "cuda" else 0
            at_once = max(together, VIDEOS_AT_ONCE)
            plain = validate(self.model, self.validation_set, self._fusion_weight(now), at_once).to_plain()
        self.model.enter(now)
        return Validation.from_plain(self.group.share(plain))

    @property
    def _lacks_witness(self) -> bool:
        return self.config.witness_stage.steps > 0 and not self.run.has_weights("witness")

    def _calibrate(self, interrupted: Interrupted | None = None) -> None:
        """Learn from the validation split how sure the finished run's answers are, and train its witness.

        What was done before is not done again.
        """
        if not self.group.is_first:
            return
        sets = self.train_set, self.validation_set
        if read_calibration(self.run) is None:
            found = calibrate_run(self.run, *sets, self.group.device)
            if found.base is None and found.trace is None:
                self._print(
                    f"its answers will have no probabilities: they need {FEWEST_QUERIES} validation sentences, about "
                    "three videos at least"
                )
        if self._lacks_witness:
            shown = self.console is not None
            fitted = fit_run_witness(self.run, *sets, self.group.device, progress=shown, stop=interrupted)
            self._print(
                f"chosen on validation: hub offset μ = {fitted.hubs:.3g}, witness λ = {fitted.words:.3g}, reading "
                f"{fitted.inputs}; `prvr eval` says what each adds"
            )

    def _compare_with_best(self, now: PhaseEpoch, validation: Validation) -> None:
        progress = self.progress
        if validation.final.sum_r <= progress.best_sum_r:
            progress.since_best += 1
            return
        progress.best_sum_r, progress.best_epoch, progress.since_best = validation.final.sum_r, now.epoch, 0
        weight, recalls = self._fusion_weight(now), validation.final.as_dict()
        about = {"epoch": now.epoch, "fusion_weight": weight, "validation": recalls}
        self.checkpoints.remember_best(now.phase, self.model.state_dict(), about)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        self.progress.loss_sums = {name: float(total) for name, total in self.loss_sums.items()}
        # Before anything is written: a ruined model must not replace a good checkpoint.
        _require_finite(sum(self.progress.loss_sums.values()), self.progress)
        state = {} if self.optimiser is None else optim.optimiser_tensors(self.optimiser, self._optimised())
        self.checkpoints.save(self.progress, self.model.state_dict(), state)

    def _restore(self) -> None:
        """Continue from the newest checkpoint, if there is one; else from the run that this one starts from."""
        restored = self.checkpoints.restore()
        if restored is None:
            load_start(self.run, self.model)
            return
        self.progress = restored.progress
        self.loss_sums = dict(self.progress.loss_sums)
        try:
            self.model.load_state_dict(restored.model)
        except RuntimeError as error:
            raise RunError(f"the checkpoint in {self.run.path} does not fit this run: {error}") from None
        if restored.optimiser and self.progress.epoch < self._epochs():
            now = phase_at(self.progress.epoch, self.progress.backbone_epochs, self.config.trace_stage)
            self.optimiser = self.setup.optimiser(now)
            optim.restore_optimiser(self.optimiser, self._optimised(), restored.optimiser)

    def _optimised(self) -> nn.Module:
        """The module whose parameters the optimiser holds."""
        return self.model.backbone if isinstance(self.optimiser, optim.BertAdam) else self.model


def _require_finite(loss: float, progress: Progress) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} at epoch {progress.epoch + 1}, step {progress.step}: "
            "try a lower learning rate or --precision fp32; the last checkpoint is intact"
        )
