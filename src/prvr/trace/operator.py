"""TRACE, one function per equation. Greek letters are the paper's.

A query q activates registers r (π), registers are grounded to frames f (b), alternative q→r→f paths are marginalised
by a log-sum-exp (ρ), and only then is the maximum over time taken. Everything here works on projected vectors of
unit length and never looks at padded frames.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_COSINE_SPAN = 4.0  # (a − a_max) + (b − b_max) with all of them in [−1, 1]


def direct_evidence(queries: Tensor, frames: Tensor) -> Tensor:
    """``d_i = q·f_i``: (Q, D), (V, M, D) → (Q, V, M).

    >>> direct_evidence(torch.tensor([[0.6, 0.8]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([[[0.6000, 0.8000]]])
    """
    return torch.einsum("qd,vmd->qvm", queries, frames)


def register_affinity(queries: Tensor, registers: Tensor) -> Tensor:
    """``a_k = q·r_k``: (Q, D), (V, R, D) → (Q, V, R)."""
    return torch.einsum("qd,vrd->qvr", queries, registers)


def register_activation(affinity: Tensor, temperature: float) -> Tensor:
    """``π = softmax(a/τ)``: (Q, V, R) → (Q, V, R).

    >>> register_activation(torch.tensor([[[0.07, 0.0]]]), temperature=0.07)
    tensor([[[0.7311, 0.2689]]])
    """
    return (affinity / temperature).softmax(-1)


def grounding(registers: Tensor, frames: Tensor) -> Tensor:
    """``b_ki = r_k·f_i``, no query in it: (V, R, D), (V, M, D) → (V, R, M)."""
    return registers @ frames.transpose(-1, -2)


def routed_support(affinity: Tensor, compatibility: Tensor, temperature: float) -> Tensor:
    """``ρ_i = τ·logsumexp_k((a_k + b_ki)/τ)``: (Q, V, R), (V, R, M) → (Q, V, M).

    Computed as ``a_max + b_max + τ·log(A·B)`` with ``A = exp((a − a_max)/τ)`` and ``B = exp((b − b_max)/τ)``: the
    sum over registers is a small matrix product, and no (Q, V, R, M) tensor is made. Cosines span at most 4, so the
    exponentials can underflow only at temperatures below 0.05 (float32); there the registers are summed one by one.

    >>> a, b = torch.tensor([[[0.5, -0.2]]]), torch.tensor([[[0.1], [0.4]]])
    >>> routed_support(a, b, temperature=0.07)  # one dominant path: 0.5 + 0.1, plus a little
    tensor([[[0.6002]]])
    """
    if may_underflow(temperature, affinity.dtype):
        return _support_one_by_one(affinity, compatibility, temperature)
    reach, strongest = register_reach(affinity, temperature)  # A (Q, V, R)
    grounded, ceiling = grounding_reach(compatibility, temperature)  # B (V, R, M)
    paths = torch.einsum("qvr,vrm->qvm", reach, grounded)
    return support_of_paths(paths, strongest, ceiling[:, None], temperature)


class Reach(NamedTuple):
    """Exponentials of cosines over τ, relative to the largest cosine."""

    weights: Tensor
    largest: Tensor


def register_reach(affinity: Tensor, temperature: float, dim: int = -1) -> Reach:
    """``A = exp((a − a_max)/τ)`` and ``a_max``, which keeps a dimension of 1: (…, R) → (…, R), (…, 1)."""
    strongest = affinity.amax(dim, keepdim=True)
    return Reach(((affinity - strongest) / temperature).exp(), strongest)


def grounding_reach(compatibility: Tensor, temperature: float, dtype: torch.dtype | None = None) -> Reach:
    """``B = exp((b − b_max)/τ)`` and each video's ``b_max``: (V, R, M) → (V, R, M), (V,). No query in it.

    Padded frames may hold −∞. ``dtype`` is the precision of the exponentials: float64 at low temperatures.
    """
    ceiling = compatibility.amax((-1, -2))
    relative = compatibility - ceiling[:, None, None]
    return Reach(((relative if dtype is None else relative.to(dtype)) / temperature).exp(), ceiling)


def support_of_paths(paths: Tensor, strongest: Tensor, ceiling: Tensor, temperature: float) -> Tensor:
    """``ρ = a_max + b_max + τ·log(A·B)`` from the sum over registers ``A·B``; shapes as they broadcast."""
    return strongest + ceiling + temperature * paths.log().to(strongest.dtype)


def may_underflow(temperature: float, dtype: torch.dtype) -> bool:
    """Whether ``exp`` of a difference of cosines over τ can leave the range of a type."""
    return _COSINE_SPAN / temperature > -math.log(torch.finfo(dtype).tiny)


def _support_one_by_one(affinity: Tensor, compatibility: Tensor, temperature: float) -> Tensor:
    paths = (affinity[..., k, None] + compatibility[:, k] for k in range(affinity.shape[-1]))  # R of (Q, V, M)
    return temperature * functools.reduce(torch.logaddexp, (path / temperature for path in paths))


def routed_evidence(direct: Tensor, support: Tensor, strength: float) -> Tensor:
    """``d̃_i = d_i + γρ_i``: (Q, V, M)."""
    return direct + strength * support


def concentrate(routed: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """``S_route = max_i d̃_i`` over valid frames, and the frame that wins: (Q, V, M), (V, M) → (Q, V), (Q, V).

    >>> concentrate(torch.tensor([[[0.2, 0.5, 9.0]]]), torch.tensor([[True, True, False]]))
    (tensor([[0.5000]]), tensor([[1]]))
    """
    best = routed.masked_fill(~mask, torch.finfo(routed.dtype).min).max(-1)
    return best.values, best.indices


def frame_attention(compatibility: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """``softmax_i(b_ki/τ)`` over valid frames: (V, R, M) → (V, R, M), zero on padding."""
    logits = (compatibility / temperature).masked_fill(~mask[:, None], torch.finfo(compatibility.dtype).min)
    return logits.softmax(-1) * mask[:, None]


def attended_values(attention: Tensor, values: Tensor) -> Tensor:
    """``w_k = Σ_i softmax_i(b_ki/τ) f^v_i``: (V, R, M), (V, M, D) → (V, R, D). The same for every query."""
    return attention @ values


def soft_score(queries: Tensor, activation: Tensor, attended: Tensor) -> Tensor:
    """``S_soft = cos(q, Σ_k π_k w_k)``: (Q, D), (Q, V, R), (V, R, D) → (Q, V).

    R dot products per pair: ``(Σ_k π_k q·w_k) / √(π G πᵀ)`` with the Gram matrix ``G = W Wᵀ`` of each video.

    >>> w = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> soft_score(torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.5, 0.5]]]), w)
    tensor([[0.7071]])
    """
    responses = register_affinity(queries, attended)
    return soft_score_of_responses(responses, activation, gram_matrix(attended))


def gram_matrix(attended: Tensor) -> Tensor:
    """``G = W Wᵀ`` of each video's attended values: (V, R, D) → (V, R, R)."""
    return attended @ attended.transpose(-1, -2)


def soft_score_of_responses(responses: Tensor, activation: Tensor, gram: Tensor) -> Tensor:
    """``S_soft`` from ``q·w_k``, π and G, any leading shape that broadcasts: (…, R), (…, R), (…, R, R) → (…)."""
    squared = torch.einsum("...r,...rs,...s->...", activation, gram, activation)
    return soft_cosine((activation * responses).sum(-1), squared)


def soft_cosine(along: Tensor, squared: Tensor) -> Tensor:
    """The cosine from ``q·v`` and ``‖v‖²`` of the softly attended frames v. The scale of v cancels."""
    # Values that cancel leave rounding noise on both sides of the fraction: keep its floor well above that.
    floor = 1e-5 * torch.finfo(squared.dtype).eps
    return (along / squared.clamp(min=floor).sqrt()).clamp(-1, 1)


def certainty(activation: Tensor) -> Tensor:
    """``1 − H(π)/log R``: 0 where a query activates all registers alike, 1 where it activates one. (Q, V, R) → (Q, V).

    With a single register, certainty is defined as 1.

    >>> certainty(torch.tensor([[[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    count = activation.shape[-1]
    if count == 1:
        return torch.ones_like(activation[..., 0])
    entropy = torch.special.entr(activation.clamp(min=torch.finfo(activation.dtype).tiny)).sum(-1)
    return (1 - entropy / math.log(count)).clamp(0, 1)


def evidence_score(route: Tensor, soft: Tensor, activation: Tensor, soft_weight: float, gate: bool = False) -> Tensor:
    """``S_trace = S_route + η·S_soft``, with the gate times the pair's certainty: (Q, V), (Q, V), (Q, V, R) → (Q, V).

    The gate is not in the paper: it keeps the evidence of a pair out of the ranking where the query activates all of
    the video's registers alike, which the paper names as TRACE's first failure mode.

    >>> route, soft, activation = torch.tensor([[1.0]]), torch.tensor([[0.5]]), torch.tensor([[[0.5, 0.5]]])
    >>> evidence_score(route, soft, activation, 0.2), evidence_score(route, soft, activation, 0.2, gate=True)
    (tensor([[1.1000]]), tensor([[0.]]))
    """
    score = route + soft_weight * soft
    return score * certainty(activation) if gate else score


def fuse(base: Tensor, trace: Tensor, weight: float) -> Tensor:
    """``S_final = S_base + λ·S_trace``; λ = 0 returns the base score itself.

    >>> fuse(torch.tensor([0.5]), torch.tensor([1.0]), weight=0.03)
    tensor([0.5300])
    """
    return base if weight == 0 else base + weight * trace


def clean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Set padded tokens to zero, NaN included, so that they cannot leak into a product or a gradient."""
    return tokens.masked_fill(~mask[..., None], 0.0)


def projected_unit(x: Tensor, weight: Tensor | None = None) -> Tensor:
    """``x / ‖x‖``, after an optional projection ``y = W x``."""
    projected = x if weight is None else x @ weight.to(x.dtype).T
    return F.normalize(projected, dim=-1)
