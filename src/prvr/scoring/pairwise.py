"""Scoring without a gallery: each query–video pair is computed by itself, in blocks that fit into memory.

``pairwise_scores`` scores every pair; ``rerank`` only the best of a first stage, whose order it keeps below them.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from prvr.backbones import Backbone
from prvr.scoring.inputs import encode_video_batches, evaluation_mode, join_videos
from prvr.tokens import VideoBatch, VideoTokens

MEMORY_BUDGET = 1 << 30  # bytes that the pairs of one block may take up


@torch.no_grad()
def pairwise_scores(
    backbone: Backbone, queries: Tensor, video_batches: Iterable[VideoBatch], memory_budget: int = MEMORY_BUDGET
) -> Tensor:
    """The method's own score of every query against every video, (Q, …) → (Q, V) float32.

    ``queries`` is what ``encode_query_batches`` returned: vectors or packed words. Only one batch of videos is held.
    """
    with evaluation_mode(backbone):
        columns = [
            _scores(backbone, queries, videos, memory_budget)
            for videos in encode_video_batches(backbone, video_batches)
        ]
    if not columns:
        raise ValueError("no videos were given to score")
    return torch.cat(columns, 1)


@torch.no_grad()
def rerank(
    backbone: Backbone,
    queries: Tensor,
    video_batches: Iterable[VideoBatch],
    first_stage: Tensor,
    k: int = 100,
    memory_budget: int = MEMORY_BUDGET,
) -> Tensor:
    """Re-order each query's ``k`` best videos of a first stage, (Q, V) → (Q, V) float32.

    The k best hold this method's own scores. All others follow below the lowest of those, one apart, in the first
    stage's order (equal scores: gallery order): R@k is the first stage's, recalls within it are this method's.
    """
    with evaluation_mode(backbone):
        videos = join_videos(list(encode_video_batches(backbone, video_batches)))
        if first_stage.shape != (len(queries), len(videos)):
            raise ValueError(
                f"first-stage scores have shape {tuple(first_stage.shape)}, but there are {len(queries)} queries and "
                f"{len(videos)} videos: score the same split with both stages"
            )
        k = min(k, len(videos))
        final = torch.empty(first_stage.shape, device=queries.device)
        places = torch.arange(1, len(videos) - k + 1, device=queries.device)
        for row, query in enumerate(torch.split(queries, 1)):
            order = first_stage[row].to(queries.device).argsort(descending=True, stable=True)
            fresh = _scores(backbone, query, videos[order[:k]], memory_budget).squeeze(0)
            final[row, order[:k]] = fresh
            final[row, order[k:]] = fresh.min() - places
    return final


def _scores(backbone: Backbone, queries: Tensor, videos: VideoTokens, memory_budget: int) -> Tensor:
    """A (Q, V) block in tiles of as many pairs as the budget allows."""
    words = queries.shape[1] if queries.ndim == 3 else 1
    size = queries.element_size() * backbone.pair_elements(words, videos.frames.shape[1])
    pairs = max(1, memory_budget // size)
    across = min(len(videos), pairs)
    down = max(1, pairs // across)
    starts = range(0, len(videos), across)
    return torch.cat(
        [
            torch.cat([backbone.base_score(rows, videos[s : s + across]).float() for s in starts], 1)
            for rows in torch.split(queries, down)
        ]
    )
