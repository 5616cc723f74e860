"""Reading labels: who is positive, who is a sibling, who is only padding (label −1)."""

from __future__ import annotations

import torch
from torch import Tensor


def is_positive(labels: Tensor, videos: int) -> Tensor:
    """(N, B) True where query n describes video b.

    >>> is_positive(torch.tensor([1, -1]), 2)
    tensor([[False,  True],
            [False, False]])
    """
    return labels[:, None] == torch.arange(videos, device=labels.device)[None, :]


def same_video(labels: Tensor) -> Tensor:
    """(N, N) True for two different queries of one video."""
    alike = (labels[:, None] == labels[None, :]) & (labels >= 0)[:, None]
    return alike & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean where the mask is True; 0 where it never is.

    >>> masked_mean(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    tensor(1.)
    """
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)
