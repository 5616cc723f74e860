"""Bidirectional triplet loss, and which negatives it meets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from prvr.losses.labels import is_positive, masked_mean


class Negatives(NamedTuple):
    """One negative for each anchor: a query row per video, a video column per query."""

    query_of_video: Tensor  # (B,)
    video_of_query: Tensor  # (N,)


def pick_negatives(
    scores: Tensor, labels: Tensor, *, hard_pool: int | None, generator: torch.Generator | None = None
) -> Negatives:
    """Choose negatives on scores (N, B). ``hard_pool=None``: uniformly among all of them.

    With a pool size k: each video meets its single hardest query, each query one of its k hardest videos. (The
    asymmetry is the field's.)

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.2, 0.7]])
    >>> pick_negatives(scores, torch.tensor([0, 1]), hard_pool=1)
    Negatives(query_of_video=tensor([1, 0, 1]), video_of_query=tensor([1, 2]))
    """
    negative = ~is_positive(labels, scores.shape[1]) & (labels >= 0)[:, None]  # (N, B)
    candidates = scores.detach().masked_fill(~negative, -torch.inf)
    if hard_pool is None:
        keys = torch.rand(scores.shape, device=scores.device, generator=generator)
        keys_again = torch.rand(scores.shape, device=scores.device, generator=generator)
        return Negatives(keys.masked_fill(~negative, -1.0).argmax(0), keys_again.masked_fill(~negative, -1.0).argmax(1))
    pool = max(1, min(hard_pool, scores.shape[1] - 1))
    hardest = candidates.topk(pool, dim=1).indices  # (N, pool)
    draw = torch.randint(pool, (len(scores), 1), device=scores.device, generator=generator)
    return Negatives(candidates.argmax(0), hardest.gather(1, draw).squeeze(1))


def triplet(scores: Tensor, labels: Tensor, margin: float, negatives: Negatives) -> Tensor:
    """``max(0, m + negative − positive)`` both ways on cosine scores (N, B).

    A video's positive is the mean score of its queries. An anchor without a negative (or a video without a query)
    adds nothing.

    >>> scores = torch.tensor([[0.5, 0.4], [0.1, 0.6]])
    >>> chosen = Negatives(torch.tensor([1, 0]), torch.tensor([1, 0]))
    >>> triplet(scores, torch.tensor([0, 1]), 0.2, chosen)  # (0 + 0)/2 over videos + (0.1 + 0)/2 over queries
    tensor(0.0500)
    """
    positive = is_positive(labels, scores.shape[1])
    count = positive.sum(0)
    mean_positive = (scores * positive).sum(0) / count.clamp(min=1)
    other_query = scores.gather(0, negatives.query_of_video[None, :]).squeeze(0)
    has_rival = labels[negatives.query_of_video] != torch.arange(len(count), device=scores.device)
    video_loss = (margin + other_query - mean_positive).clamp(min=0) * has_rival

    own = scores.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
    other_video = scores.gather(1, negatives.video_of_query[:, None]).squeeze(1)
    query_loss = (margin + other_video - own).clamp(min=0) * (negatives.video_of_query != labels)
    return masked_mean(video_loss, count > 0) + masked_mean(query_loss, labels >= 0)
