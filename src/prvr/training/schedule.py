"""The progressive schedule: which parts learn when, at what rate, and how much TRACE counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from prvr.training.config import BackboneStage, TraceStage, TrainConfig

PhaseName: TypeAlias = Literal["backbone", "frozen", "joint"]


@dataclass(frozen=True)
class PhaseEpoch:
    """An epoch, and the phase of training that it belongs to."""

    epoch: int  # from 0 over the whole run
    phase: PhaseName
    trace_epoch: int  # t of the paper; negative before TRACE joins

    @property
    def uses_trace(self) -> bool:
        return self.phase != "backbone"


def phase_at(epoch: int, backbone_epochs: int, stage: TraceStage) -> PhaseEpoch:
    """The phase of an epoch, counted from 0 over the whole run.

    >>> [phase_at(e, 100, TraceStage()).phase for e in (99, 100, 104, 105)]
    ['backbone', 'frozen', 'frozen', 'joint']
    """
    t = epoch - backbone_epochs
    phase: PhaseName = "backbone" if t < 0 else "frozen" if t < stage.frozen_epochs else "joint"
    return PhaseEpoch(epoch, phase, t)


def fusion_weight(t: int, weight: float, stage: TraceStage) -> float:
    """λ(t): 0 before ``fusion_start``, then a linear ramp to λ.

    >>> [round(fusion_weight(t, 0.03, TraceStage()), 4) for t in (0, 29, 30, 40, 50, 59)]
    [0.0, 0.0, 0.0, 0.015, 0.03, 0.03]
    """
    if t < stage.fusion_start:
        return 0.0
    return weight * min(1.0, (t - stage.fusion_start) / stage.fusion_ramp) if stage.fusion_ramp else weight


def learning_rate(now: PhaseEpoch, step: int, steps_per_epoch: int, config: TrainConfig) -> float:
    """The learning rate of a step, counted from 0 inside its epoch."""
    if now.phase == "backbone":
        stage = config.backbone_stage
        done = now.epoch * steps_per_epoch + step
        return stage.learning_rate * backbone_rate(done, stage.epochs * steps_per_epoch, stage)
    done = now.trace_epoch * steps_per_epoch + step
    return config.trace_stage.learning_rate * trace_rate(done, steps_per_epoch, config.trace_stage)


def backbone_rate(step: int, steps: int, stage: BackboneStage) -> float:
    """Multiplier of the learning rate: linear warm-up from 0, then linear or cosine to 0. The first step has rate 0.

    The cosine counts from the run's start, not from the end of warm-up, so the rate steps down a little there.

    >>> [round(backbone_rate(s, 1000, BackboneStage()), 3) for s in (0, 5, 10, 505, 1000)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> cosine = BackboneStage(warmup=0.1, schedule="cosine")
    >>> [round(backbone_rate(s, 1000, cosine), 3) for s in (0, 50, 99, 100, 500, 1000)]
    [0.0, 0.5, 0.99, 0.976, 0.5, 0.0]
    >>> backbone_rate(0, 1000, BackboneStage(schedule="constant"))
    1.0
    """
    if stage.schedule == "constant":
        return 1.0
    x = step / max(1, steps)
    if stage.schedule == "cosine" and x >= stage.warmup:
        return 0.5 * (1 + math.cos(math.pi * x))
    return x / stage.warmup if x < stage.warmup else max(0.0, (x - 1) / (stage.warmup - 1))


def trace_rate(step: int, steps_per_epoch: int, stage: TraceStage) -> float:
    """Multiplier of the learning rate: linear warm-up over the first epochs, then cosine to ``final_share``.

    >>> [round(trace_rate(s, 10, TraceStage()), 3) for s in (0, 49, 50, 325, 600)]
    [0.02, 1.0, 1.0, 0.55, 0.1]
    """
    warm = stage.warmup_epochs * steps_per_epoch
    if step < warm:
        return (step + 1) / warm
    progress = min(1.0, (step - warm) / max(1, stage.epochs * steps_per_epoch - warm))
    return stage.final_share + (1 - stage.final_share) * 0.5 * (1 + math.cos(math.pi * progress))
