"""Scores of a query against a set of tokens: the strongest response counts."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class TokenSet(NamedTuple):
    """Tokens whose best cosine with the query is added to the score with a weight. Zero tokens have cosine 0."""

    weight: float
    tokens: Tensor  # (V, N, D)


def max_dot(queries: Tensor, tokens: Tensor) -> Tensor:
    """``max_n q·t_n``: (Q, D), (V, N, D) → (Q, V)."""
    return torch.einsum("qd,vnd->qvn", queries, tokens).amax(-1)


def max_cosine(queries: Tensor, tokens: Tensor) -> Tensor:
    """``max_n cos(q, t_n)``; a zero token has cosine 0.

    >>> q = torch.tensor([[1.0, 0.0]])
    >>> max_cosine(q, torch.tensor([[[-3.0, 0.0], [0.0, 0.0]]]))  # the zero slot wins over an opposed token
    tensor([[0.]])
    """
    return max_dot(F.normalize(queries, dim=-1), F.normalize(tokens, dim=-1))
