"""A query's words, before they are encoded."""

from __future__ import annotations

from torch import Tensor


def last_words(tokens: Tensor, mask: Tensor) -> Tensor:
    """The last real word of each query, (N, L, D), (N, L) → (N, D): in CLIP's features the sentence's own vector."""
    last = (mask.sum(1) - 1).clamp(min=0)
    return tokens.gather(1, last[:, None, None].expand(-1, 1, tokens.shape[2])).squeeze(1)
