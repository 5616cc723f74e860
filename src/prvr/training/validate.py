"""Ranks of a whole split under the current model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from prvr.backbones.base import FirstStage
from prvr.data import Dataset
from prvr.scoring import (
    Gallery,
    Recall,
    Scores,
    encode_query_batches,
    pairwise_scores,
    ranks,
    recalls,
    rerank,
    score_parts,
)
from prvr.training.model import TraceModel
from prvr.training.run import Run

VIDEOS_AT_ONCE = 100  # encoded together, unless a caller knows better


class Validation(NamedTuple):
    """Recalls of the base score and of the score in force."""

    base: Recall
    final: Recall

    def to_plain(self) -> list[dict[str, Any]]:
        """What JSON holds of it."""
        return [asdict(recall) for recall in self]

    @staticmethod
    def from_plain(told: list[dict[str, Any]]) -> Validation:
        base, final = (Recall(tuple((k, percent) for k, percent in each["at"]), each["count"]) for each in told)
        return Validation(base, final)


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
    """Every pair by a method that cannot prepare a gallery, or only the best of its first stage."""
    stage = model.backbone.first_stage
    if stage is None:
        return pairwise_scores(model.backbone, queries, dataset.video_batches())
    first, with_trace = load_first_stage(stage, queries.device)
    found = split_scores(first, dataset, use_trace=with_trace)
    best = found.final(first.trace.config.fusion_weight)
    return rerank(model.backbone, queries, dataset.video_batches(), best, stage.candidates)


def load_first_stage(stage: FirstStage, device: torch.device) -> tuple[TraceModel, bool]:
    """The model whose ranking is re-ordered, and whether TRACE takes part in that ranking."""
    run = Run(stage.run)
    model, _ = run.load_model(device=device)
    return model, run.config.trace_stage.epochs > 0


def validate(
    model: TraceModel, dataset: Dataset, fusion_weight: float, videos_at_once: int = VIDEOS_AT_ONCE
) -> Validation:
    """Recalls on the single labelled video of each query."""
    scores = split_scores(model, dataset, use_trace=fusion_weight > 0, videos_at_once=videos_at_once)
    base = recalls(ranks(scores.base, dataset.query_video))
    if fusion_weight == 0:
        return Validation(base, base)
    return Validation(base, recalls(ranks(scores.final(fusion_weight), dataset.query_video)))
