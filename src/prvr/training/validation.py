"""Scores and recalls of a whole split under the current model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from prvr.backbones import FirstStage
from prvr.data import Dataset
from prvr.scoring import (
    Gallery,
    Recall,
    Scores,
    encode_query_batches,
    encode_video_batches,
    evaluation_mode,
    pairwise_scores,
    ranks,
    recalls,
    rerank,
    score_parts,
)
from prvr.trace import RegisterSpread
from prvr.training.model import TraceModel
from prvr.training.run import Run

VIDEOS_AT_ONCE = 100  # videos that are encoded together


class Validation(NamedTuple):
    """Recalls of the base score and of the final score (with the fusion weight of the epoch)."""

    base: Recall
    final: Recall
    registers: RegisterSpread | None = None  # of the first videos; None for a method without registers

    def to_plain(self) -> list[dict[str, Any]]:
        """As JSON values."""
        return [asdict(part) for part in self if part is not None]

    @staticmethod
    def from_plain(values: list[dict[str, Any]]) -> Validation:
        """The inverse of ``to_plain``."""
        base, final = (Recall(tuple((k, percent) for k, percent in v["at"]), v["count"]) for v in values[:2])
        return Validation(base, final, RegisterSpread(**values[2]) if values[2:] else None)


def split_scores(
    model: TraceModel, dataset: Dataset, *, use_trace: bool = True, videos_at_once: int = VIDEOS_AT_ONCE
) -> Scores:
    """Base and evidence scores of every query of a split against every video of it."""
    with (
        torch.no_grad(),
        torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16, enabled=model.bf16),
    ):
        queries = encode_query_batches(model.backbone, dataset.query_batches())
        if not model.backbone.separable and not use_trace:
            return Scores(_pair_scores(model, queries, dataset), None)
        videos = dataset.video_batches(videos_at_once)
        gallery = Gallery.build(model.backbone, model.trace if use_trace else None, videos)
    with torch.no_grad():
        return score_parts(queries, gallery)


def _pair_scores(model: TraceModel, queries: Tensor, dataset: Dataset) -> Tensor:
    """Scores by a method that cannot prepare a gallery: of every pair, or only of its first stage's best."""
    stage = model.backbone.first_stage
    if stage is None:
        return pairwise_scores(model.backbone, queries, dataset.video_batches())
    first, with_trace = load_first_stage(stage, queries.device)
    scores = split_scores(first, dataset, use_trace=with_trace).final(first.trace.config.fusion_weight)
    return rerank(model.backbone, queries, dataset.video_batches(), scores, stage.candidates)


def load_first_stage(stage: FirstStage, device: torch.device) -> tuple[TraceModel, bool]:
    """Load the model whose ranking is re-ordered. Returns it, and whether TRACE takes part in that ranking."""
    run = Run(stage.run)
    model, _ = run.load_model(device=device)
    return model, run.config.trace_stage.epochs > 0


def validate(
    model: TraceModel, dataset: Dataset, fusion_weight: float, videos_at_once: int = VIDEOS_AT_ONCE
) -> Validation:
    """Recalls of a split, where each query's one right answer is its labelled video.

    Args:
        fusion_weight: weight λ of the evidence score in the final score; 0: TRACE is not computed.
        videos_at_once: how many videos are encoded together.
    """
    scores = split_scores(model, dataset, use_trace=fusion_weight > 0, videos_at_once=videos_at_once)
    base = recalls(ranks(scores.base, dataset.query_video))
    spread = register_spread(model, dataset)
    if fusion_weight == 0:
        return Validation(base, base, spread)
    return Validation(base, recalls(ranks(scores.final(fusion_weight), dataset.query_video)), spread)


@torch.no_grad()
def register_spread(model: TraceModel, dataset: Dataset) -> RegisterSpread | None:
    """How different the registers of a split's first videos are; None for a method without registers."""
    if not model.backbone.has_registers:
        return None
    with evaluation_mode(model.backbone):
        tokens = next(iter(encode_video_batches(model.backbone, dataset.video_batches(VIDEOS_AT_ONCE))))
    return None if tokens.registers is None else RegisterSpread.of(tokens.registers)
