"""Queries that keep their words, as one tensor.

A method whose score reads every word (CONQUER, Cap4Video, RAL) cannot answer ``encode_queries`` with one vector per
query. It answers with a packed tensor: the word states, and their mask in one more channel. So a query is still one row
of one tensor, which can be sliced, joined, gathered over processes and passed to ``base_score`` like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Words(NamedTuple):
    """The parts of packed queries."""

    states: Tensor  # (Q, L, D)
    mask: Tensor  # (Q, L)


def pack_words(states: Tensor, mask: Tensor) -> Tensor:
    """(Q, L, D), (Q, L) → (Q, L, D + 1): the last channel is 1 on real words, 0 on padding.

    >>> pack_words(torch.ones(1, 2, 3), torch.tensor([[True, False]]))[..., -1]
    tensor([[1., 0.]])
    """
    return torch.cat([states, mask[..., None].to(states.dtype)], dim=-1)


def unpack_words(packed: Tensor) -> Words:
    """The inverse of ``pack_words``."""
    return Words(packed[..., :-1], packed[..., -1] > 0.5)


class UnpackedQuery(NamedTuple):
    """The parts of a packed query that also has a sentence vector."""

    vector: Tensor  # (Q, D)
    words: Tensor  # (Q, L, D)
    mask: Tensor  # (Q, L)


def pack_query(vector: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Sentence vector and words, (Q, D), (Q, L, D), (Q, L) → (Q, 1 + L, D + 1): the vector comes first."""
    rows = torch.cat([vector[:, None].to(words.dtype), words], dim=1)
    return pack_words(rows, F.pad(mask, (1, 0), value=True))


def unpack_query(packed: Tensor) -> UnpackedQuery:
    """The inverse of ``pack_query``."""
    states, mask = unpack_words(packed)
    return UnpackedQuery(states[:, 0], states[:, 1:], mask[:, 1:])


def pad_words(packed: Tensor, words: int) -> Tensor:
    """Pad packed queries with zero rows to ``words`` words, (Q, L, W) → (Q, words, W). Plain vectors are not padded."""
    return packed if packed.ndim < 3 else F.pad(packed, (0, 0, 0, max(0, words - packed.shape[1])))


def join_queries(parts: list[Tensor]) -> Tensor:
    """Join encoded queries of several batches; packed ones are padded to the longest query."""
    longest = max((part.shape[1] for part in parts if part.ndim == 3), default=0)
    return torch.cat([pad_words(part, longest) for part in parts])
