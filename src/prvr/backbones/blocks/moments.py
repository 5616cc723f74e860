"""Where a moment starts and ends."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Span(NamedTuple):
    """Start and end logits of every frame for every pair, (Q, V, M) each."""

    start: Tensor
    end: Tensor


def best_span_score(span: Span, shortest: int, longest: int) -> Tensor:
    """``max_{i,j} start_i + end_j`` over moments with ``shortest ≤ j − i < longest``, (…, M) twice → (…).

    >>> start, end = torch.tensor([0.0, 5.0, 0.0]), torch.tensor([9.0, 0.0, 1.0])
    >>> best_span_score(Span(start, end), 0, 24)  # start and end on frame 0
    tensor(9.)
    >>> best_span_score(Span(start, end), 1, 24)  # from 1 to 2: the best end lies before the best start
    tensor(6.)
    """
    places = torch.arange(span.start.shape[-1], device=span.start.device)
    length = places[None, :] - places[:, None]  # (M, M): end − start
    allowed = (length >= shortest) & (length < longest)
    sums = span.start[..., :, None] + span.end[..., None, :]
    return sums.masked_fill(~allowed, -torch.inf).amax((-2, -1))
