"""Losses of the baseline in ``naive.py``, as loops.

A dictionary lists the queries of each video, and Python loops go over queries and videos. Every video
needs a query, and no query may be padding. Values equal those of ``prvr.losses``.
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import Tensor


def queries_of_videos(labels: list[int], videos: int) -> dict[int, list[int]]:
    """Rows of the queries of each video."""
    found: dict[int, list[int]] = {video: [] for video in range(videos)}
    for query, video in enumerate(labels):
        found[video].append(query)
    return found


def nce(scores: Tensor, labels: list[int], queries_of: dict[int, list[int]]) -> Tensor:
    """Every query finds its video, every video its queries, on raw scores (N, B)."""
    text_to_video = []
    for query, video in enumerate(labels):
        text_to_video.append(torch.logsumexp(scores[query], dim=0) - scores[query, video])
    video_to_text = []
    for video, queries in queries_of.items():
        own = torch.logsumexp(scores[queries, video], dim=0)
        video_to_text.append(torch.logsumexp(scores[:, video], dim=0) - own)
    return torch.stack(text_to_video).mean() + torch.stack(video_to_text).mean()


def triplet(
    scores: Tensor, labels: list[int], queries_of: dict[int, list[int]], margin: float, pool: int | None
) -> Tensor:
    """Both directions on cosines (N, B), negatives picked one by one.

    ``pool=None``: any negative; else a video's hardest query, and one of a query's ``pool`` hardest videos.
    """
    from_videos = []
    for video, queries in queries_of.items():
        negatives = [query for query in range(len(labels)) if labels[query] != video]
        order = torch.sort(scores[negatives, video].detach(), descending=True)[1]
        chosen = negatives[int(order[0 if pool is not None else random.randrange(len(negatives))])]
        from_videos.append((margin + scores[chosen, video] - scores[queries, video].mean()).clamp(min=0))
    from_queries = []
    for query, video in enumerate(labels):
        negatives = [other for other in range(len(queries_of)) if other != video]
        order = torch.sort(scores[query, negatives].detach(), descending=True)[1]
        chosen = negatives[int(order[random.randrange(min(pool or len(negatives), len(negatives)))])]
        from_queries.append((margin + scores[query, chosen] - scores[query, video]).clamp(min=0))
    return torch.stack(from_videos).mean() + torch.stack(from_queries).mean()


def diversity(
    queries: Tensor, queries_of: dict[int, list[int]], *, offset: float, scale: float, power: float
) -> Tensor:
    """The cosines of each video's queries, one video at a time, (N, D) → ()."""
    total = queries.new_zeros(())
    for own in queries_of.values():
        unit = F.normalize(queries[own], dim=-1)
        cosine = unit @ unit.t()
        penalty = (1 + cosine) ** power * F.softplus(scale * (cosine + offset))
        total = total + (penalty * (1 - torch.eye(len(own), device=queries.device))).sum()
    return total / len(queries)


def similarity(queries: Tensor, queries_of: dict[int, list[int]], temperature: float) -> Tensor:
    """Contrast of each query's siblings with all other queries, one query at a time, (N, D) → ()."""
    unit = F.normalize(queries, dim=-1)
    logits = unit @ unit.t() / temperature
    losses = []
    for own in queries_of.values():
        for query in own:
            siblings = [other for other in own if other != query]
            if not siblings:
                continue
            others = [other for other in range(len(queries)) if other != query]
            losses.append(torch.logsumexp(logits[query, others], dim=0) - logits[query, siblings].mean())
    return torch.stack(losses).mean() if losses else queries.new_zeros(())


def mean_queries(queries: Tensor, queries_of: dict[int, list[int]]) -> Tensor:
    """(N, D) → (V, D)"""
    return torch.stack([queries[own].mean(dim=0) for own in queries_of.values()])


def kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp()) / len(mean)
