"""Variants of TRACE: the ablation rows, and the routing corruptions.

Every variant is a weighted sum of a few *parts* (the routed maximum, the soft route, a plain maximum …). All parts of a
tile of videos share the same query–frame and query–register products, so a whole table costs little more than its first
row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import operator as op
from prvr.trace.config import TraceConfig
from prvr.trace.module import Trace, TraceFactors


@dataclass(frozen=True)
class Variant:
    """A way to make an evidence score: which part counts fully, and which part with the soft route's weight η."""

    key: str
    label: str
    main: str | None  # None: no evidence at all, the base score
    soft: str | None = None

    def evidence(self, parts: Mapping[str, Tensor], soft_weight: float) -> Tensor | None:
        """Its evidence score, (Q, V)."""
        if self.main is None:
            return None
        return parts[self.main] if self.soft is None else parts[self.main] + soft_weight * parts[self.soft]


BASE_VARIANT = Variant("base", "base branch", None)
TRACE_VARIANT = Variant("trace", "TRACE (full)", "route", "soft")
UNIFORM = Variant("uniform", "uniform q→R", "route_uniform", "soft_uniform")
ABLATIONS = (  # rows (0) to (8) of the paper's Table 3, in its order
    TRACE_VARIANT,
    BASE_VARIANT,
    Variant("direct_only", "S_qF only", "direct"),
    Variant("soft_only", "S_soft only", "soft"),
    Variant("direct_soft", "S_qF + η S_soft", "direct", "soft"),
    Variant("registers_only", "S_qR only", "registers"),
    UNIFORM,
    Variant("route_only", "S_route only", "route"),
    Variant("average", "Avg(d̃)", "average", "soft"),
)
CORRUPTIONS = (  # rows of Table S5, from the least to the most destroyed route
    UNIFORM,
    Variant("cross_video", "cross-video shuffle q→R", "route_cross", "soft_cross"),
    Variant("shuffled_grounding", "shuffle R→F", "route_shuffled", "soft_shuffled"),
)
# Where the paper can be read otherwise: whether a uniform activation keeps the mean affinity (ours) or has none at all
# ("query-agnostic"), and whether uniform and average keep η·S_soft (its Table 3 says so, its row (7) compares without).
READINGS = (
    Variant("uniform_constant", "uniform q→R, constant affinity", "route_constant_uniform", "soft_uniform"),
    Variant("uniform_route", "uniform q→R, without η S_soft", "route_uniform"),
    Variant("uniform_constant_route", "uniform q→R, constant affinity, without η S_soft", "route_constant_uniform"),
    Variant("average_route", "Avg(d̃), without η S_soft", "average"),
)
VARIANTS = tuple({variant.key: variant for variant in (BASE_VARIANT, *ABLATIONS, *CORRUPTIONS, *READINGS)}.values())


@dataclass(frozen=True)
class VariantFactors(TraceFactors):
    """Per-video data that variants need in addition to TRACE's own."""

    mean_frame: Tensor  # (V, D) mean of the valid frame keys
    open_support: Tensor  # (V, M) τ·logsumexp_k(b_ki/τ): the support of a frame when no register is preferred
    other_registers: Tensor  # (V, R, D) the register keys of another video
    shuffled_compatibility: Tensor  # (V, R, M) b with valid frames exchanged
    shuffled_attended: Tensor  # (V, R, D) the values its softmax attends to


@torch.no_grad()
def variant_factors(trace: Trace, videos: VideoTokens, *, seed: int, batch: int = 64) -> VariantFactors:
    """Index-time half of all variants. The seed fixes both shuffles; the batch size does not change them."""
    shuffle = frame_shuffle(videos.evidence_mask, seed)
    rows = range(0, len(videos), batch)
    parts = [_factors(trace, videos[start : start + batch], shuffle[start : start + batch]) for start in rows]
    found: dict[str, Tensor] = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    found["other_registers"] = found["registers"][derangement(len(videos), seed).to(found["registers"].device)]
    return VariantFactors(**found)


def _factors(trace: Trace, videos: VideoTokens, shuffle: Tensor) -> dict[str, Tensor]:
    own, temperature = trace.factors(videos), trace.config.temperature
    mask = own.frame_mask
    moved = own.compatibility.gather(-1, shuffle[:, None].expand_as(own.compatibility))
    values = op.projected_unit(op.clean(videos.evidence, mask), trace.projections["frame_value"])
    return {field.name: getattr(own, field.name) for field in fields(own)} | {
        "mean_frame": own.frames.sum(1) / mask.sum(1, keepdim=True),  # padded keys are zero
        "open_support": temperature * (own.compatibility / temperature).logsumexp(1),
        "shuffled_compatibility": moved,
        "shuffled_attended": op.attended_values(op.frame_attention(moved, mask, temperature), values),
    }


@torch.no_grad()
def variant_parts(
    queries: Tensor, videos: VariantFactors, config: TraceConfig, strengths: Sequence[float] = ()
) -> dict[str, Tensor]:
    """All parts of a tile, (Q, v) each, from projected unit queries (Q, D).

    ``strengths`` adds the routed maximum at other γ, named by ``route_name``. Inside, queries are the last axis, (v, M,
    Q): frames are then reduced by whole rows of queries, several times faster on a CPU than along a row.
    """
    temperature, gamma = config.temperature, config.routing_strength
    direct = _products(videos.frames, queries)  # (v, M, Q), shared by all
    direct.masked_fill_(~videos.frame_mask[..., None], torch.finfo(direct.dtype).min)
    affinity = _products(videos.registers, queries)  # (v, R, Q)
    other = _products(videos.other_registers, queries)
    valid = videos.frame_mask[:, None].to(direct.dtype)  # (v, 1, M)
    even = torch.full_like(affinity, 1 / affinity.shape[1])

    def routed(support: Tensor, strength: float = gamma) -> Tensor:
        return torch.add(direct, support, alpha=strength).amax(1)

    def activation(affinity: Tensor) -> Tensor:
        return (affinity / temperature).softmax(1)

    support = _support(affinity, videos.compatibility, temperature)
    without_query = routed(videos.open_support[..., None])
    parts = {
        "direct": direct.amax(1),
        "route": routed(support),
        "soft": _soft(queries, activation(affinity), videos.attended),
        "registers": temperature * (affinity / temperature).logsumexp(1),
        "average": videos.mean_frame @ queries.T + gamma * (valid @ support).squeeze(1) / valid.sum(-1),
        "route_constant_uniform": without_query,
        "route_uniform": without_query + gamma * affinity.mean(1),
        "soft_uniform": _soft(queries, even, videos.attended),
        "soft_cross": _soft(queries, activation(other), videos.attended),
        "soft_shuffled": _soft(queries, activation(affinity), videos.shuffled_attended),
    }
    parts |= {route_name(strength): routed(support, strength) for strength in strengths}
    parts["route_cross"] = routed(_support(other, videos.compatibility, temperature))
    parts["route_shuffled"] = routed(_support(affinity, videos.shuffled_compatibility, temperature))
    if config.gate:
        own, exchanged, even_gate = (_certainty(a) for a in (activation(affinity), activation(other), even))
        gates = {"cross": exchanged, "uniform": even_gate}
        parts = {name: part * gates.get(name.rpartition("_")[2], own) for name, part in parts.items()}
    return {name: part.T for name, part in parts.items()}


def _certainty(activation: Tensor) -> Tensor:
    """How certain an activation is, with queries last: (v, R, Q) → (v, Q)."""
    return op.certainty(activation.transpose(1, 2))


def _products(tokens: Tensor, queries: Tensor) -> Tensor:
    """(v, K, D), (Q, D) → (v, K, Q) in one matrix product."""
    return (tokens.flatten(0, 1) @ queries.T).view(*tokens.shape[:2], len(queries))


def _support(affinity: Tensor, compatibility: Tensor, temperature: float) -> Tensor:
    """ρ as ``op.routed_support`` computes it, with queries last: (v, R, Q), (v, R, M) → (v, M, Q)."""
    if op.may_underflow(temperature, affinity.dtype):
        return op.routed_support(affinity.permute(2, 0, 1), compatibility, temperature).permute(1, 2, 0)
    reach, strongest = op.register_reach(affinity, temperature, dim=1)
    grounded, ceiling = op.grounding_reach(compatibility, temperature)
    return op.support_of_paths(grounded.transpose(1, 2) @ reach, strongest, ceiling[:, None, None], temperature)


def _soft(queries: Tensor, activation: Tensor, attended: Tensor) -> Tensor:
    """S_soft with queries last: (Q, D), (v, R, Q), (v, R, D) → (v, Q)."""
    along = (activation * _products(attended, queries)).sum(1)
    return op.soft_cosine(along, (activation * (op.gram_matrix(attended) @ activation)).sum(1))


def route_name(strength: float) -> str:
    """The name of the routed maximum at some γ.

    >>> route_name(0.5)
    'route@0.5'
    """
    return f"route@{strength:g}"


def derangement(count: int, seed: int) -> Tensor:
    """A permutation without fixed points: one random cycle through all, (count,).

    >>> moved = derangement(5, seed=0)
    >>> sorted(moved.tolist()), bool((moved == torch.arange(5)).any())
    ([0, 1, 2, 3, 4], False)
    """
    if count < 2:
        raise ValueError(f"{count} video(s) cannot be exchanged with one another; a shuffle needs at least two")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    following = torch.empty_like(order)
    following[order] = order.roll(-1)
    return following


def frame_shuffle(mask: Tensor, seed: int) -> Tensor:
    """For each video, where its valid frames go when they are permuted at random; padding stays: (V, M) → (V, M).

    >>> frame_shuffle(torch.tensor([[True, True, True, False]]), seed=0)[0, 3]
    tensor(3)
    """
    keys = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)).to(mask.device)
    drawn = keys.masked_fill(~mask, 2.0).argsort(dim=1, stable=True)  # valid frames first, in random order
    places = (~mask).to(torch.uint8).argsort(dim=1, stable=True)  # the same frames in their own order
    return torch.empty_like(drawn).scatter(1, places, drawn)
