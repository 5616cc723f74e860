"""Loss on the start and end of a moment, for training data that has them."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def span_loss(starts: Tensor, ends: Tensor, spans: Tensor) -> Tensor:
    """Cross-entropy of the start plus that of the end: logits (N, M) twice, labels (N, 2) → (). A start of −1: padding.

    Logits over several videos laid end to end share one normalisation (CONQUER).

    >>> import torch
    >>> span_loss(torch.zeros(1, 4), torch.zeros(1, 4), torch.tensor([[0, 2]]))  # 2 log 4
    tensor(2.7726)
    """
    start, end = spans.unbind(1)
    return F.cross_entropy(starts, start, ignore_index=-1) + F.cross_entropy(ends, end, ignore_index=-1)
