"""Optimal transport between a video's queries and its clips: which clips each query is about.

Queries stay in rows as they come, (N, C); what belongs to one video is found by label, so that no batch has to be
regrouped to its largest number of queries.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.losses.labels import is_positive

_ROUNDS = 50
_FLOOR = 1e-8


def query_clip_similarity(queries: Tensor, clips: Tensor, labels: Tensor) -> Tensor:
    """Cosines of each query with its own video's clips, scaled to [0, 1] per video. (N, D), (B, C, D) → (N, C).

    Where another video of the batch has more queries, 0 takes part in a video's least and greatest value: the authors
    pad queries with zero vectors and scale them along. So a video's similarities depend on its batch.
    """
    own = is_positive(labels, len(clips)).T  # (B, N)
    row = labels.clamp(min=0)
    cosine = torch.einsum("nd,ncd->nc", F.normalize(queries, dim=-1), F.normalize(clips, dim=-1)[row])
    least = torch.where(own, cosine.amin(1), torch.inf).amin(1)  # (B,)
    greatest = torch.where(own, cosine.amax(1), -torch.inf).amax(1)
    count = own.sum(1)
    padded = (count < count.amax()) | (count == 0)
    least = torch.where(padded, least.clamp(max=0), least)[row, None]
    greatest = torch.where(padded, greatest.clamp(min=0), greatest)[row, None]
    return (cosine - least) / (greatest - least + _FLOOR)


def dustbin_values(similarity: Tensor, labels: Tensor, videos: int, share: float) -> Tensor:
    """The value below which a ``share`` of a video's query–clip similarities lies, (N, C) → (B,).

    >>> rows = torch.tensor([[0.0, 0.9], [0.5, 0.3], [0.2, 0.7]])
    >>> dustbin_values(rows, torch.tensor([0, 0, 1]), 2, share=0.5)  # the second of four, the first of two
    tensor([0.3000, 0.2000])
    """
    width = similarity.shape[1]
    owner = torch.where(labels >= 0, labels, videos)[:, None].expand_as(similarity).flatten()  # padding goes last
    values, order = similarity.flatten().sort()
    by_video = values[owner[order].sort(stable=True).indices]  # video after video, each in ascending order
    entries = is_positive(labels, videos).sum(0) * width
    rank = (share * entries.double()).long().clamp(min=1)  # in double, as the authors' Python does
    last = entries.cumsum(0) - entries + torch.minimum(rank, entries.clamp(min=1)) - 1
    return by_video[last.clamp(max=len(by_video) - 1)]


def log_transport(similarity: Tensor, labels: Tensor, dustbin: Tensor, scale: float, rounds: int = _ROUNDS) -> Tensor:
    """Sinkhorn in log space for all videos at once: the log plan of each query's row, (N, C), (B,) → (N, C).

    Every clip has mass 1/C. A video with q queries gives each of them mass 1/(C + q), and C/(C + q) to a dustbin that
    is equally similar to every clip and takes the clips that no query describes.
    """
    (queries, width), videos = similarity.shape, len(dustbin)
    log_width = math.log(width)
    own = is_positive(labels, videos)  # (N, B)
    row, real = labels.clamp(min=0), (labels >= 0)[:, None]
    member = own.T.to(similarity.dtype)
    index = row[:, None].expand(queries, width)
    logits, bin_logits = similarity / scale, dustbin[:, None] / scale
    total = (width + own.sum(0)).to(similarity.dtype).log()[:, None]  # (B, 1)
    to_clips = logits.new_zeros(videos, width)  # potentials of clips; those of queries and dustbins follow from them
    for _ in range(rounds):
        to_queries = -total[row] - (logits + to_clips[row]).logsumexp(1, keepdim=True)  # (N, 1)
        to_bins = log_width - total - bin_logits - to_clips.logsumexp(1, keepdim=True)  # (B, 1)
        mass = torch.where(real, logits + to_queries, -torch.inf)  # (N, C)
        bin_mass = (bin_logits + to_bins).expand(videos, width)
        top = bin_mass.scatter_reduce(0, index, mass, "amax")
        summed = (bin_mass - top).exp() + member @ (mass - top[row]).exp()
        to_clips = -log_width - top - summed.log()
    return logits + to_queries + to_clips[row]


@torch.no_grad()
def transport_plan(similarity: Tensor, labels: Tensor, videos: int, *, scale: float, dustbin_share: float) -> Tensor:
    """How much each query is about each clip of its video, rows adding up to 1, (N, C) → (N, C). No gradient."""
    dustbin = dustbin_values(similarity, labels, videos, dustbin_share)
    plan = log_transport(similarity, labels, dustbin, scale).exp() * similarity.shape[1]
    plan = torch.where((labels >= 0)[:, None], plan, 0.0)
    return plan / (plan.sum(1, keepdim=True) + _FLOOR)
