"""Labels: which queries and videos belong together, and which queries are padding (label −1)."""

from __future__ import annotations

import torch
from torch import Tensor

from prvr.tokens import SAME_WORDS

LEFT_OUT = -1e4  # added to the score of a pair: no loss looks at it any more


def is_positive(labels: Tensor, videos: int) -> Tensor:
    """(N, B) True where query n describes video b.

    >>> is_positive(torch.tensor([1, -1]), 2)
    tensor([[False,  True],
            [False, False]])
    """
    return labels[:, None] == torch.arange(videos, device=labels.device)[None, :]


def also_described(meanings: Tensor, alike: float, labels: Tensor, videos: int) -> Tensor:
    """(N, B) True where query n is labelled with another video, but says the same as a query of video b.

    Args:
        meanings: unit vectors of the queries, (N, D).
        alike: the cosine from which on two of them say the same.
        labels: video of each query, (N,).
        videos: how many there are.

    >>> also_described(torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 0.7, torch.tensor([0, 1, 1]), 2)
    tensor([[False,  True],
            [ True, False],
            [False, False]])
    """
    own = is_positive(labels, videos)
    same = (meanings @ meanings.T >= min(alike, SAME_WORDS)) & (labels >= 0)[:, None]
    return (same.float() @ own.float() > 0) & ~own


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


def mean_per_video(values: Tensor, labels: Tensor, videos: int) -> Tensor:
    """The mean over videos of each video's mean over its queries, (N,) → (); videos without a query do not count.

    >>> mean_per_video(torch.tensor([1.0, 3.0, 6.0]), torch.tensor([0, 0, 2]), 3)  # (2 + 6)/2
    tensor(4.)
    """
    own = is_positive(labels, videos)
    count = own.sum(0)
    means = torch.where(own, values[:, None], 0.0).sum(0) / count.clamp(min=1)
    return masked_mean(means, count > 0)
