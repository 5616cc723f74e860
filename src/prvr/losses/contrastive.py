"""Contrastive losses: in-batch NCE both ways, InfoNCE, and supervised contrast between queries."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.losses.labels import is_positive, masked_mean, same_video


def two_way_nce(scores: Tensor, labels: Tensor) -> Tensor:
    """Every query should find its video, and every video its queries together.

    ``mean_n [lse_b S[n,b] − S[n,y_n]] + mean_b [lse_n S[n,b] − lse_{n: y_n=b} S[n,b]]`` on raw scores (N, B).

    >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> two_way_nce(scores, torch.tensor([0, 1]))
    tensor(0.2539)
    """
    text_to_video, video_to_text, described = _both_ways(scores, labels)
    return text_to_video + masked_mean(video_to_text, described)


def first_video_nce(scores: Tensor, labels: Tensor) -> Tensor:
    """The same, but only the first query's video looks for its queries, and counts as one of B: UEM as released.

    >>> first_video_nce(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1]))  # 0.1269 + 0.1269/2
    tensor(0.1904)
    """
    text_to_video, video_to_text, described = _both_ways(scores, labels)
    return text_to_video + video_to_text.gather(0, labels[:1].clamp(min=0)).sum() / described.sum().clamp(min=1)


def _both_ways(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over queries; the loss of every video, (B,); and which videos have a query, (B,)."""
    real = labels >= 0
    positive = is_positive(labels, scores.shape[1])
    text_to_video = scores.logsumexp(1) - scores.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
    everyone = scores.masked_fill(~real[:, None], -torch.inf).logsumexp(0)
    own = scores.masked_fill(~positive, -torch.inf).logsumexp(0)
    described = positive.any(0)  # a video without a query has nothing to find
    return masked_mean(text_to_video, real), everyone - own.masked_fill(~described, 0.0), described


def square_nce(scores: Tensor, labels: Tensor) -> Tensor:
    """``mean_i [lse(S[i,·] and S[·,i] together) − S[i,i]]`` on raw scores (N, N): row and column share one sum.

    Other queries of the same video count as negatives (MS-SL's rule); padding does not.

    >>> square_nce(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1]))  # log(2e² + 2) − 2
    tensor(0.8201)
    """
    real = labels >= 0
    counted = scores.masked_fill(~(real[:, None] & real[None, :]), -torch.inf)
    return masked_mean(torch.cat([counted, counted.T], 1).logsumexp(1) - scores.diagonal(), real)


def info_nce(scores: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """``−mean_n log softmax_b(S[n,b]/τ)[y_n]``: the evidence contrastive loss of TRACE.

    >>> info_nce(torch.tensor([[0.14, 0.0]]), torch.tensor([0]), temperature=0.07)
    tensor(0.1269)
    """
    return F.cross_entropy(scores / temperature, labels, ignore_index=-1)


def query_similarity(queries: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrast: a query should be nearer to its siblings (same video) than to other queries, (N, D) → ().

    For each query with a sibling: the mean over siblings j of ``l_ij − log Σ_{k≠i} exp l_ik``; the negative
    mean over those queries; 0 where no video has two queries.
    """
    unit = F.normalize(queries, dim=-1)
    logits = unit @ unit.T / temperature  # (N, N)
    self_pair = torch.eye(len(queries), dtype=torch.bool, device=queries.device)
    siblings = same_video(labels)
    others = ~self_pair & (labels >= 0)[None, :]
    log_probability = logits - logits.masked_fill(~others, -torch.inf).logsumexp(1, keepdim=True)
    log_probability = log_probability.masked_fill(self_pair, 0.0)  # −inf·0 on a lone query would be NaN
    count = siblings.sum(1)
    per_query = (log_probability * siblings).sum(1) / count.clamp(min=1)
    return -per_query.sum() / (count > 0).sum().clamp(min=1)
