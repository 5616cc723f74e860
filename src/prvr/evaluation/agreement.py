"""Clip–frame agreement: do the two branches of a score point at the same time?"""

from __future__ import annotations

import torch
from torch import Tensor


def clip_of_frame(frame: Tensor, frames: Tensor, clips: int) -> Tensor:
    """The clip whose stretch of time holds the middle of a frame; (N,), (N,) frames per video → (N,).

    >>> clip_of_frame(torch.tensor([0, 9, 4]), torch.tensor([10, 10, 5]), clips=2)
    tensor([0, 1, 1])
    """
    return torch.div((2 * frame + 1) * clips, 2 * frames, rounding_mode="floor")


def agrees(frame: Tensor, frames: Tensor, clip: Tensor, clips: int, *, within: int = 0) -> Tensor:
    """Whether the best frame lies in the best clip, or at most so many clips away, (N,) bool."""
    return (clip_of_frame(frame, frames, clips) - clip).abs() <= within
