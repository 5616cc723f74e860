"""Shared by frozen_proxy.py and frozen_rendered.py: frames, windows and moments with TRACE off and on, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from rich.table import Table
from torch import Tensor

from prvr.backbones import Frozen, FrozenTokens, build
from prvr.evaluation import ranks, recalls
from prvr.trace import temporal_iou, trace_evidence

KINDS = ("frames", "windows", "moments")
FUSION_WEIGHTS = (0.03, 0.3)  # λ is not tuned: two values are shown
QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class LabelledQueries:
    """Queries in the space of the frames, with their right answers."""

    vectors: Tensor  # (Q, D) unit length
    positives: list[tuple[int, ...]]  # rows of all correct videos
    own: Tensor  # (Q,) row of the video it was written about
    moments: list[tuple[float, float]]  # seconds, in that video


def comparison(videos: list[Tensor], queries: LabelledQueries, rate: float, title: str) -> Table:
    """A table with one row for each kind of local tokens and each score.

    Args:
        videos: frame features, (n, D) each.
        queries: what is searched for.
        rate: frames per second.
        title: of the table.
    """
    about = f"{title}: {len(videos)} videos, {len(queries.own)} sentences, {rate:g} frames per second"
    table = Table("local tokens", "score", title=about)
    for column in ("R@1", "R@5", "R@10", "SumR", "mean IoU"):
        table.add_column(column, justify="right")
    for kind in KINDS:
        for name, values in table_rows(kind, videos, queries, rate):
            table.add_row(kind, name, *values)
    return table


def table_rows(
    kind: str, videos: list[Tensor], queries: LabelledQueries, rate: float
) -> Iterator[tuple[str, list[str]]]:
    """Rows of the table for one kind of local tokens."""
    width = queries.vectors.shape[1]
    backbone = build("frozen", visual_width=width, query_width=width, local=kind)
    assert isinstance(backbone, Frozen)
    tokens = backbone.join([backbone.moments(video) for video in videos])
    weights = (0.0, *FUSION_WEIGHTS)
    scores: dict[float, list[Tensor]] = {weight: [] for weight in weights}
    peaks: dict[float, list[Tensor]] = {weight: [] for weight in weights}
    for rows in torch.arange(len(queries.own)).split(QUERIES_AT_ONCE):
        for weight, (score, peak) in scored(backbone, tokens, queries.vectors[rows], queries.own[rows]).items():
            scores[weight].append(score)
            peaks[weight].append(peak)
    seconds = tokens.seconds(rate)
    for weight in weights:
        recall = recalls(ranks(torch.cat(scores[weight]), queries.positives))
        spans = seconds[queries.own, torch.cat(peaks[weight])].tolist()
        pairs = zip(spans, queries.moments, strict=True)
        iou = sum(float(temporal_iou(start, end, *true)) for (start, end), true in pairs) / len(spans)
        name = f"base + {weight:g} TRACE" if weight else "base"
        yield name, [*(f"{recall[k]:.1f}" for k in (1, 5, 10)), f"{recall.sum_r:.1f}", f"{iou:.3f}"]


def scored(backbone: Frozen, tokens: FrozenTokens, queries: Tensor, own: Tensor) -> dict[float, tuple[Tensor, Tensor]]:
    """For each λ: scores (q, V), and where the evidence peaks in each sentence's own video, (q,)."""
    assert tokens.registers is not None
    evidence = trace_evidence(queries, tokens.registers, tokens.frames, tokens.frame_mask)
    base = backbone.base_score(queries, tokens)
    direct = torch.einsum("qd,qmd->qm", queries, tokens.frames[own]).masked_fill(~tokens.frame_mask[own], -torch.inf)
    routed = evidence.peak[torch.arange(len(own)), own]
    return {0.0: (base, direct.argmax(1))} | {w: (base + w * evidence.score, routed) for w in FUSION_WEIGHTS}
