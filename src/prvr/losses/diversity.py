"""Query diversity: captions of one video should not collapse onto one vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.losses.labels import same_video


def query_diversity(queries: Tensor, labels: Tensor, *, offset: float, scale: float, power: float) -> Tensor:
    """``1/N · Σ_{i≠j, same video} (1 + c_ij)^power · log(1 + exp(scale·(c_ij + offset)))`` with cosines c, (N, D) → ().

    Both orders of a pair count.

    >>> two = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> query_diversity(two, torch.tensor([0, 0]), offset=0.0, scale=1.0, power=1.0)  # c = 0: log 2
    tensor(0.6931)
    >>> query_diversity(two, torch.tensor([0, 1]), offset=0.0, scale=1.0, power=1.0)
    tensor(0.)
    """
    unit = F.normalize(queries, dim=-1)
    cosine = unit @ unit.T
    penalty = (1 + cosine).clamp(min=0) ** power * F.softplus(scale * (cosine + offset))
    return (penalty * same_video(labels)).sum() / (labels >= 0).sum().clamp(min=1)


def crowding(queries: Tensor, labels: Tensor, *, offset: float, scale: float) -> Tensor:
    """``1/N · Σ_j log(1 + Σ_{i≠j, same video} exp(scale·(c_ij + offset)))`` with cosines c, (N, D) → ().

    GMMFormer's form of query diversity: one logarithm over all siblings of a query instead of one for each.

    >>> three = torch.eye(3)
    >>> crowding(three, torch.tensor([0, 0, 1]), offset=0.0, scale=1.0)  # c = 0: 2/3 · log 2
    tensor(0.4621)
    """
    unit = F.normalize(queries, dim=-1)
    pull = (scale * (unit @ unit.T + offset)).masked_fill(~same_video(labels), -torch.inf)
    one = pull.new_zeros(1, len(queries))  # exp(0) is the 1 inside the logarithm
    return torch.cat([pull, one]).logsumexp(0).sum() / (labels >= 0).sum().clamp(min=1)
