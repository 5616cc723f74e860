"""The setup of a training phase: its optimiser, and the kind of step that this machine allows."""

from __future__ import annotations

import torch
from torch import nn

from prvr.training import optim
from prvr.training.compiled_model import (
    PAYS_AFTER_STEPS,
    PAYS_AGAIN_AFTER_STEPS,
    CompiledModel,
    compiled_before,
)
from prvr.training.config import ConfigError, TrainConfig
from prvr.training.distributed import Processes
from prvr.training.model import TraceModel
from prvr.training.schedule import PhaseEpoch
from prvr.training.step import GraphedStep, PlainStep, Step


class PhaseSetup:
    """Optimisers and steps for one model. What was compiled for one phase is used again in the next."""

    def __init__(self, config: TrainConfig, model: TraceModel, group: Processes):
        self.config, self.model, self.group = config, model, group
        self.compiled: CompiledModel | None = None

    def optimiser(self, now: PhaseEpoch) -> torch.optim.Optimizer:
        """A new optimiser for a phase: the backbone's own, or AdamW once TRACE takes part."""
        if now.phase == "backbone":
            return optim.backbone_optimiser(self.model.backbone, self.config.backbone_stage)
        return optim.trace_optimiser(self.model, self.config.trace_stage)

    def step(self, now: PhaseEpoch, optimiser: torch.optim.Optimizer, steps_left: int) -> Step:
        """The step of a phase: plain, over several processes, or captured as a CUDA graph.

        Args:
            now: the epoch that the phase begins (or is resumed) with.
            optimiser: the phase's, from ``optimiser``.
            steps_left: how many steps the whole training still has; decides whether compiling pays.
        """
        config, device = self.config, self.group.device
        graphed = config.graphs and device.type == "cuda" and self.group.world == 1
        if config.trace_stage.fused_base and now.uses_trace:
            graphed = False  # λ(t) changes from epoch to epoch, and a graph would keep the first
        if config.compile == "on" and not graphed:
            raise ConfigError(
                "compile = on needs steps that are captured as graphs, on one GPU; here: "
                f"{self.group.world} process(es) on {device.type}, graphs {'on' if config.graphs else 'off'}. "
                "Use --compile auto"
            )
        clip = config.trace_stage.clip if now.uses_trace else config.backbone_stage.clip or None
        if self.group.world > 1:
            ids = [device.index] if device.type == "cuda" else None
            return PlainStep(nn.parallel.DistributedDataParallel(self.model, device_ids=ids), optimiser, clip)
        tf32 = device.type == "cuda" and self.model.bf16
        plain = PlainStep(self.model, optimiser, clip, tf32=tf32)
        if not graphed:
            return plain
        optim.rate_on_device(optimiser, device)
        compiled = self._compiled(now, steps_left)
        repeated = None if compiled is None else PlainStep(self.model, optimiser, clip, compiled, tf32)
        return GraphedStep(plain, config.batch_size, config.model, repeated)

    def _compiled(self, now: PhaseEpoch, steps_left: int) -> CompiledModel | None:
        """The compiled model, made once; None where compiling does not pay.

        A frozen backbone is not compiled: it would need another compiled form, for a few quick epochs.
        """
        pays_after = PAYS_AGAIN_AFTER_STEPS if compiled_before(self.model, self.config.batch_size) else PAYS_AFTER_STEPS
        pays = self.config.compile == "on" or (self.config.compile == "auto" and steps_left >= pays_after)
        if pays and self.compiled is None:
            self.compiled = CompiledModel(self.model, self.config.batch_size)
        return None if now.phase == "frozen" else self.compiled
