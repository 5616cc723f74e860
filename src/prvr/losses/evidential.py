"""Evidential learning: scores as evidence for each class, and the uncertainty that remains.

Evidence ``e ≥ 0`` over K classes gives a Dirichlet with ``α = e + 1`` and strength ``S = Σ α``; beliefs ``e/S`` and
uncertainty ``K/S`` add up to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from prvr.losses.labels import is_positive


class Division(NamedTuple):
    """How reliable each query is. A query is in exactly one part, padding in none."""

    confident: Tensor  # (N,)
    noisy: Tensor  # (N,)
    uncertain: Tensor  # (N,)


def dirichlet_evidence(scores: Tensor, temperature: float) -> Tensor:
    """``exp(tanh(s)/τ)`` of cosine-like scores."""
    return (scores.tanh() / temperature).exp()


def uncertainty(evidence: Tensor) -> Tensor:
    """``K/S``, (N, K) → (N,): 1 without any evidence.

    >>> uncertainty(torch.tensor([[0.0, 0.0], [6.0, 0.0]]))
    tensor([1.0000, 0.2500])
    """
    return evidence.shape[-1] / (evidence + 1).sum(-1)


def combined_evidence(one: Tensor, other: Tensor) -> Tensor:
    """Dempster–Shafer combination of two sources over the same K classes, (N, K), (N, K) → (N, K).

    Their rule weighs beliefs by one minus the sources' conflict; in terms of evidence the conflict cancels, and what is
    left, ``e₁ + e₂ + e₁e₂/K``, loses no digits where the sources disagree.

    >>> combined_evidence(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 4.0]]))
    tensor([[4., 4.]])
    """
    return one + other + one * other / one.shape[-1]


def evidential_error(evidence: Tensor, targets: Tensor) -> Tensor:
    """Expected squared error of the Dirichlet, ``Σ_k (y_k − p_k)² + p_k(1 − p_k)/(S + 1)`` with p = α/S, (N, K) → (N,).

    >>> evidential_error(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0]]))  # ½ + ½/3
    tensor([0.6667])
    """
    alpha = evidence + 1
    strength = alpha.sum(-1, keepdim=True)
    mean = alpha / strength
    return ((targets - mean).square() + mean * (1 - mean) / (strength + 1)).sum(-1)


@torch.no_grad()
def divide_queries(scores: Tensor, evidence: Tensor, labels: Tensor, bound: float) -> Division:
    """Which queries of a batch a branch is sure of, (N, B) scores and their evidence.

    Thresholds come from the queries that find their video: a query is uncertain above their largest uncertainty (at
    most 1 − bound); of the others, confident from their smallest true score on (at least the bound), else noisy. A
    confident query whose expected entropy is above the batch's lower median counts as noisy too.
    """
    real = labels >= 0
    unsure = uncertainty(evidence)
    own = scores.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
    correct = scores.argmax(1) == labels
    # Without a single correct query both extremes are infinite and the bounds alone decide.
    most_unsure = torch.where(correct, unsure, -torch.inf).amax()
    most_unsure = torch.where(correct.any(), most_unsure, torch.inf).clamp(max=1 - bound)
    least_score = torch.where(correct, own, torch.inf).amin()
    least_score = torch.where(correct.any(), least_score, -torch.inf).clamp(min=bound)

    entropy = expected_entropy(evidence)
    ranked = torch.where(real, entropy, torch.inf).sort().values
    median = ranked.gather(0, ((real.sum() - 1) // 2).clamp(min=0)[None])
    uncertain = unsure > most_unsure
    confident = ~uncertain & (own >= least_score) & (entropy <= median)
    return Division(confident & real, ~uncertain & ~confident & real, uncertain & real)


def expected_entropy(evidence: Tensor) -> Tensor:
    """``Σ_k p_k (ψ(S + 1) − ψ(α_k + 1))``: the mean entropy of what the Dirichlet draws, (N, K) → (N,)."""
    alpha = evidence + 1
    strength = alpha.sum(-1, keepdim=True)
    return (alpha / strength * (torch.digamma(strength + 1) - torch.digamma(alpha + 1))).sum(-1)


def ambiguous(frames: Division, clips: Division) -> Tensor:
    """Queries that both branches are sure enough of, but not both confident: (N,)."""
    return (frames.confident & clips.noisy) | (frames.noisy & clips.confident) | (frames.noisy & clips.noisy)


@torch.no_grad()
def softened_targets(frames: Tensor, clips: Tensor, labels: Tensor, soften: Tensor, share: float) -> Tensor:
    """One-hot targets, mixed with both branches' own softmax where ``soften`` is True, (N, B) scores → (N, B)."""
    hard = is_positive(labels, frames.shape[1]).to(frames.dtype)
    guess = (frames.softmax(1) + clips.softmax(1)) / 2
    return torch.where(soften[:, None], (1 - share) * hard + share * guess, hard)
