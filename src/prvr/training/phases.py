"""What a phase of training runs with: its optimiser, and the form of its step on this machine."""

from __future__ import annotations

import torch
from torch import nn

from prvr.training import optim
from prvr.training.compiling import PAYS_AFTER_STEPS, CompiledParts
from prvr.training.config import ConfigError, TrainConfig
from prvr.training.distributed import Processes
from prvr.training.model import TraceModel
from prvr.training.schedule import Moment
from prvr.training.step import GraphedStep, PlainStep, Step


class Phases:
    """Optimisers and steps for one model; what was compiled for one phase serves the next."""

    def __init__(self, config: TrainConfig, model: TraceModel, group: Processes):
        self.config, self.model, self.group = config, model, group
        self.parts: CompiledParts | None = None

    def optimiser(self, now: Moment) -> torch.optim.Optimizer:
        if now.phase == "backbone":
            return optim.backbone_optimiser(self.model.backbone, self.config.backbone_stage)
        return optim.trace_optimiser(self.model, self.config.trace_stage)

    def step(self, now: Moment, optimiser: torch.optim.Optimizer, left: int) -> Step:
        """Plain, over several processes, or captured; ``left`` is how many steps the whole training still has."""
        config, device = self.config, self.group.device
        graphed = config.graphs and device.type == "cuda" and self.group.world == 1
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
        plain = PlainStep(self.model, optimiser, clip)
        if not graphed:
            return plain
        optim.rate_on_device(optimiser, device)
        return GraphedStep(plain, config.batch_size, config.model, self._compiled(now, left))

    def _compiled(self, now: Moment, left: int) -> CompiledParts | None:
        """The compiled parts, made once. A frozen backbone would need a form of its own, for a few quick epochs."""
        pays = self.config.compile == "on" or (self.config.compile == "auto" and left >= PAYS_AFTER_STEPS)
        if pays and self.parts is None:
            self.parts = CompiledParts(self.model.backbone)
        return None if now.phase == "frozen" else self.parts


def uses_bf16(config: TrainConfig, device: torch.device) -> bool:
    able = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return able if config.precision == "auto" else config.precision == "bf16"
