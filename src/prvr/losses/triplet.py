"""Bidirectional triplet loss, and the choice of its negatives."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.losses.labels import LEFT_OUT, is_positive, masked_mean


class Negatives(NamedTuple):
    """One negative for each anchor: a query row per video, a video column per query."""

    query_of_video: Tensor  # (B,)
    video_of_query: Tensor  # (N,)


def pick_negatives(
    scores: Tensor,
    labels: Tensor,
    *,
    hard_pool: int | None,
    query_pool: int = 1,
    generator: torch.Generator | None = None,
) -> Negatives:
    """Choose negatives on scores (N, B). ``hard_pool=None``: uniformly among all of them.

    With a pool size k: each video meets its single hardest query, each query one of its k hardest videos. (The
    asymmetry is usual in this field; with ``query_pool``, a video also meets one of that many hardest queries.)

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.2, 0.7]])
    >>> pick_negatives(scores, torch.tensor([0, 1]), hard_pool=1)
    Negatives(query_of_video=tensor([1, 0, 1]), video_of_query=tensor([1, 2]))
    """
    negative = ~is_positive(labels, scores.shape[1]) & (labels >= 0)[:, None] & (scores > LEFT_OUT / 2)  # (N, B)
    candidates = scores.detach().masked_fill(~negative, -torch.inf)
    if hard_pool is None:
        keys = torch.rand(scores.shape, device=scores.device, generator=generator)
        keys_again = torch.rand(scores.shape, device=scores.device, generator=generator)
        return Negatives(keys.masked_fill(~negative, -1.0).argmax(0), keys_again.masked_fill(~negative, -1.0).argmax(1))
    pool = max(1, min(hard_pool, scores.shape[1] - 1))
    hardest = candidates.topk(pool, dim=1).indices  # (N, pool)
    draw = torch.randint(pool, (len(scores), 1), device=scores.device, generator=generator)
    video_of_query = hardest.gather(1, draw).squeeze(1)
    if query_pool == 1:
        return Negatives(candidates.argmax(0), video_of_query)
    return Negatives(_among_hardest_queries(candidates, query_pool, generator), video_of_query)


def _among_hardest_queries(candidates: Tensor, pool: int, generator: torch.Generator | None) -> Tensor:
    """One of each video's hardest queries, (N, B) → (B,). How many negatives a video has depends on how many captions
    it and the batch have, so the draw is over as many as exist."""
    hardest = candidates.topk(min(pool, len(candidates)), dim=0).indices  # (pool, B)
    count = candidates.isfinite().sum(0).clamp(1, len(hardest))  # (B,)
    chance = torch.rand(count.shape, device=candidates.device, generator=generator)
    draw = (chance * count).long().minimum(count - 1)
    return hardest.gather(0, draw[None]).squeeze(0)


def triplet(scores: Tensor, labels: Tensor, margin: float, negatives: Negatives, *, soft: bool = False) -> Tensor:
    """``max(0, m + negative − positive)`` both ways on cosine scores (N, B).

    A video's positive is the mean score of its queries. An anchor without a negative (or a video without a query)
    adds nothing. ``soft`` puts ``log(1 + exp(negative − positive))`` in place of the hinge, without a margin.

    >>> scores = torch.tensor([[0.5, 0.4], [0.1, 0.6]])
    >>> chosen = Negatives(torch.tensor([1, 0]), torch.tensor([1, 0]))
    >>> triplet(scores, torch.tensor([0, 1]), 0.2, chosen)  # (0 + 0)/2 over videos + (0.1 + 0)/2 over queries
    tensor(0.0500)
    """

    def penalty(gap: Tensor) -> Tensor:
        return F.softplus(gap) if soft else (margin + gap).clamp(min=0)

    positive = is_positive(labels, scores.shape[1])
    count = positive.sum(0)
    mean_positive = (scores * positive).sum(0) / count.clamp(min=1)
    other_query = scores.gather(0, negatives.query_of_video[None, :]).squeeze(0)
    has_rival = labels[negatives.query_of_video] != torch.arange(len(count), device=scores.device)
    video_loss = penalty(other_query - mean_positive) * has_rival

    own = scores.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
    other_video = scores.gather(1, negatives.video_of_query[:, None]).squeeze(1)
    query_loss = penalty(other_video - own) * (negatives.video_of_query != labels)
    return masked_mean(video_loss, count > 0) + masked_mean(query_loss, labels >= 0)


def square_triplet(
    scores: Tensor, labels: Tensor, margin: float, *, hard_pool: int | None, generator: torch.Generator | None = None
) -> Tensor:
    """``max(0, m + negative − positive)`` by rows and by columns of a square matrix (N, N) whose positives are its
    diagonal.

    Each anchor meets one of its ``hard_pool`` hardest negatives (None: any). Other queries of the same video count as
    negatives (MS-SL's rule); padding does not.

    >>> scores = torch.tensor([[0.5, 0.4], [0.1, 0.6]])
    >>> square_triplet(scores, torch.tensor([0, 1]), 0.2, hard_pool=1)  # (0.1 + 0)/2 by rows + (0 + 0)/2 by columns
    tensor(0.0500)
    """
    real = labels >= 0
    rival = real[:, None] & real[None, :] & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    candidates = scores.detach().masked_fill(~rival, -torch.inf)
    total = scores.new_zeros(())
    for matrix, others in ((scores, candidates), (scores.T, candidates.T)):  # anchors are columns, then rows
        negative = _among_hardest_queries(others, hard_pool or len(others), generator)
        hinge = (margin + matrix.gather(0, negative[None]).squeeze(0) - matrix.diagonal()).clamp(min=0)
        total = total + masked_mean(torch.where(rival.any(0), hinge, 0.0), real)
    return total
