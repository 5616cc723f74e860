"""Ranks in a gallery that is too large for a score matrix: a few queries are scored and ranked at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from prvr.scoring.engines import Engine, score
from prvr.scoring.gallery import Gallery
from prvr.scoring.recall import Positives, ranks

SCORES_AT_ONCE = 1 << 24  # of base and evidence each: 64 MB


@torch.no_grad()
def gallery_ranks(
    queries: Tensor,
    gallery: Gallery,
    positives: Positives,
    engine: Engine = "auto",
    fusion_weight: float | None = None,
    *,
    scores_at_once: int = SCORES_AT_ONCE,
) -> Tensor:
    """``ranks(score(queries, gallery), positives)``, (Q,), without ever holding the (Q, V) scores."""
    if len(positives) != len(queries):
        raise ValueError(f"{len(queries)} queries, but positives are given for {len(positives)}")
    step = max(1, scores_at_once // max(1, len(gallery)))
    found = [
        ranks(score(queries[start : start + step], gallery, engine, fusion_weight), _part(positives, start, step))
        for start in range(0, len(queries), step)
    ]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.long)


def _part(positives: Positives, start: int, count: int) -> Tensor | Sequence[Sequence[int]]:
    return positives[start : start + count]
