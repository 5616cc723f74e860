"""Dropout whose mask is cheap to draw on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DRAWS = 2**16  # outcomes of one draw; four draws come out of each 64-bit number


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """``F.dropout``, with the rate rounded to a 65,536th on a CPU.

    Torch draws CPU masks number by number on one core, with 64 random bits each: an eighth of a training step on one
    core and more on several. Sixteen bits per number are enough to decide what is dropped.

    >>> _ = torch.manual_seed(0)
    >>> dropped = dropout(torch.ones(100_000), 0.25, training=True)
    >>> dropped.unique(), round(float(dropped.mean()), 2)
    (tensor([0.0000, 1.3333]), 1.0)
    """
    if x.device.type != "cpu" or not training or not 0 < rate < 1 or torch.compiler.is_compiling():
        return F.dropout(x, rate, training)
    count = x.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[:count].view(x.shape)  # uniform over all int16
    kept = (drawn >= round(rate * _DRAWS) - _DRAWS // 2).to(x.dtype)
    return x * kept.mul_(1 / (1 - rate))


class Dropout(nn.Dropout):
    """``nn.Dropout`` that uses ``dropout``."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)
