"""Losses between two Gaussians of a video: that of its frames and that of the words said about it."""

from __future__ import annotations

import torch
from torch import Tensor


def proxy_matching(videos: Tensor, texts: Tensor) -> Tensor:
    """Samples of a video's frames and of its words find each other, (B, K, D) twice → ().

    For each sample the mean (not the sum) of its log-probabilities of all K partners among all B·K candidates, both
    ways. Plain dot products, no temperature.

    >>> proxy_matching(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))  # log 6
    tensor(1.7918)
    """
    scores = torch.einsum("akd,bld->akbl", videos, texts)
    batch, samples = videos.shape[:2]
    flat = scores.reshape(batch * samples, batch * samples)
    own = torch.arange(batch, device=flat.device)
    by_video = flat.log_softmax(1).view_as(scores)[own, :, own].mean()
    by_text = flat.log_softmax(0).view_as(scores)[own, :, own].mean()
    return -(by_video + by_text) / 2


def distribution_alignment(
    video_mean: Tensor, video_log_spread: Tensor, text_mean: Tensor, text_log_spread: Tensor
) -> Tensor:
    """Both Gaussians near the standard one, and the words' near the frames', (B, D) four times → ().

    The log-spread is a log standard deviation in the last term and a log variance in the first two, as in RAL's code.

    >>> zero = torch.zeros(1, 2)
    >>> distribution_alignment(zero, zero, zero, zero)
    tensor(0.)
    """
    apart = (2 * text_log_spread).exp() + (text_mean - video_mean).square()
    cross = video_log_spread - text_log_spread + apart / (2 * (2 * video_log_spread).exp()) - 0.5
    prior = _to_standard(video_mean, video_log_spread) + _to_standard(text_mean, text_log_spread)
    return (prior + cross).sum(-1).mean()


def _to_standard(mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp())
