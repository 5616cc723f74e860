"""Alignment of a video's two branches: frames and clips of one segment belong together, against its other segments."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_NOTHING = -1e30  # the logarithm of no evidence; finite, so that gradients stay so
_FLOOR = math.log(1e-8)  # in the frames' direction only


class BranchAlignment(NamedTuple):
    """The loss of each video in both directions, (B,) each."""

    frame_to_clip: Tensor  # teaches the frames
    clip_to_frame: Tensor  # teaches the clips


def segment_alignment(frames: Tensor, clips: Tensor, sizes: Tensor, segments: Tensor) -> BranchAlignment:
    """Contrast of frames and segments inside each video, on plain dot products.

    Negatives enter by their mean, not their sum; a segment's positives likewise. Each direction teaches one branch and
    takes the other as given. Everything stays in logarithms, so that no vanishing positive makes the loss infinite.

    Args:
        frames: (B, M, D).
        clips: (B, C, D).
        sizes: how many frames each clip stands for, (B, C); a row sums to M.
        segments: the segment of each clip, (B, C), numbered from 0.
    """
    count = clips.shape[1]
    every = torch.arange(count, device=clips.device)
    member = (segments[..., None] == every).to(clips.dtype)  # (B, C, S)
    weight = member * sizes[..., None].to(clips.dtype)
    mass = weight.sum(1)  # (B, S) frames of each segment; 0: there is no such segment
    tokens = weight.transpose(1, 2) @ clips / mass.clamp(min=1)[..., None]  # (B, S, D)
    real = mass > 0
    own = segment_of_frames(sizes, segments, frames.shape[1])[..., None] == every  # (B, M, S)
    return BranchAlignment(
        _to_clips(frames @ tokens.detach().transpose(1, 2), own, real),
        _to_frames(frames.detach() @ tokens.transpose(1, 2), own, real),
    )


def segment_of_frames(sizes: Tensor, segments: Tensor, frames: int) -> Tensor:
    """The segment of each frame, (B, C), (B, C) → (B, M): a clip covers as many frames as its size, in order."""
    ends = sizes.cumsum(1).contiguous()
    places = torch.arange(frames, device=sizes.device, dtype=sizes.dtype).expand(len(sizes), frames).contiguous()
    clip = torch.searchsorted(ends, places, right=True).clamp(max=sizes.shape[1] - 1)
    return segments.gather(1, clip)


def _to_clips(scores: Tensor, own: Tensor, real: Tensor) -> Tensor:
    """Each frame finds its segment, (B, M, S) → (B,)."""
    scores = scores.masked_fill(~real[:, None], _NOTHING)
    scores = scores - scores.amax(-1, keepdim=True).detach()
    positive = (scores * own).sum(-1)  # (B, M)
    others = (real.sum(1) - 1).clamp(min=1)[:, None].to(scores.dtype).log()
    negative = scores.masked_fill(own, _NOTHING).logsumexp(-1) - others
    floor = torch.full_like(positive, _FLOOR)
    return (torch.stack([positive, negative, floor]).logsumexp(0) - positive).mean(-1)


def _to_frames(scores: Tensor, own: Tensor, real: Tensor) -> Tensor:
    """Each segment finds its frames, (B, M, S) → (B,)."""
    inside = own.sum(1).to(scores.dtype)  # (B, S)
    positive = scores.masked_fill(~own, _NOTHING).logsumexp(1) - inside.clamp(min=1).log()
    negative = scores.masked_fill(own, _NOTHING).logsumexp(1) - (own.shape[1] - inside).clamp(min=1).log()
    loss = torch.logaddexp(positive, negative) - positive
    return torch.where(real, loss, 0.0).sum(1) / real.sum(1).clamp(min=1)
