"""How registers are used: which one a query activates most, and whether they differ at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.trace.operator import certainty

_PLAIN = """
a an and another are as at be by for from he her him his in into is it its of off on one onto or out over she some
someone something that the their them then there they this to two up very was while who with
"""
COMMON = 0.25  # a word in more than this share of the queries says nothing about a group


@dataclass(frozen=True)
class RegisterSpread:
    """How far apart registers lie. Cosines near 1 mean that they have collapsed onto one another."""

    within: float  # mean cosine of two registers of one video
    between: float  # mean cosine of the mean registers of two videos


def register_spread(registers: Tensor) -> RegisterSpread:
    """Of unit register keys, (V, R, D)."""
    videos, count, _ = registers.shape
    own = (registers.sum(1).square().sum(-1) - count) / max(count * (count - 1), 1)
    means = torch.nn.functional.normalize(registers.mean(1), dim=-1)
    pairs = (means.sum(0).square().sum() - videos) / max(videos * (videos - 1), 1)
    return RegisterSpread(float(own.mean()), float(pairs))


def activation_entropy(activation: Tensor) -> float:
    """Mean entropy of π, (N, R), as a share of log R: 1 is uniform, 0 is one register alone."""
    return 1.0 - float(certainty(activation).mean())


def word_groups(sentences: Sequence[str], count: int = 8) -> dict[str, list[int]]:
    """Queries by the words they share: the most frequent words that are neither small nor in most queries.

    >>> word_groups(["he opens the door", "she opens a box", "a dog runs", "a dog eats", "we wait"], 2)
    {'dog': [2, 3], 'opens': [0, 1]}
    """
    words = [set(re.findall(r"[^\W\d_]{3,}", sentence.lower())).difference(_PLAIN.split()) for sentence in sentences]
    most = max(2, COMMON * len(sentences)) if len(sentences) >= 8 else len(sentences)
    tally = Counter(word for found in words for word in found)
    kept = sorted((w for w, n in tally.items() if 2 <= n <= most), key=lambda w: (-tally[w], w))[:count]
    return {word: [row for row, found in enumerate(words) if word in found] for word in kept}


def dominant_shares(activation: Tensor) -> Tensor:
    """How often each register is the strongest, (N, R) → (R,), summing to 1."""
    return torch.bincount(activation.argmax(-1), minlength=activation.shape[-1]).double() / len(activation)


def chosen_pairs(activation: Tensor, count: int = 8) -> list[int]:
    """Query rows to show, by rule: for each register in turn the query that it answers most clearly, no query twice."""
    order = activation.sort(dim=0, descending=True, stable=True).indices  # (N, R)
    chosen: list[int] = []
    for row in order.flatten().tolist():
        if row not in chosen:
            chosen.append(row)
        if len(chosen) == min(count, len(activation)):
            break
    return chosen
