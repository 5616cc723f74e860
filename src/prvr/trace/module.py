"""The TRACE module: four projections, and the operator in three forms (evidence, factors, score)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from prvr.tokens import Evidence, TensorRecord, VideoTokens, as_mask
from prvr.trace import operator as op
from prvr.trace.anchors import with_anchors
from prvr.trace.config import TraceConfig

PROJECTIONS = ("query", "register_key", "frame_key", "frame_value")


@dataclass(frozen=True)
class TraceFactors(TensorRecord):
    """Everything about videos that TRACE needs and no query changes: computed once, when a video is indexed."""

    frames: Tensor  # (V, M, D) unit frame keys, zero on padding
    frame_mask: Tensor  # (V, M)
    registers: Tensor  # (V, R, D) unit register keys
    compatibility: Tensor  # (V, R, M) b, zero on padding
    attended: Tensor  # (V, R, D) w: frame values that each register attends to


def trace_factors(
    registers: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    projections: Mapping[str, Tensor] | None = None,
    config: TraceConfig | None = None,
) -> TraceFactors:
    """Index-time half of TRACE: (V, R, D), (V, M, D), (V, M) → factors."""
    config, weights = config or TraceConfig(), projections or {}
    mask = as_mask(frame_mask)
    frames = op.clean(frames, mask)
    keys = op.projected_unit(frames, weights.get("frame_key"))
    register_keys = op.projected_unit(registers, weights.get("register_key"))
    compatibility = op.grounding(register_keys, keys)
    attention = op.frame_attention(compatibility, mask, config.temperature)
    attended = op.attended_values(attention, op.projected_unit(frames, weights.get("frame_value")))
    return TraceFactors(keys, mask, register_keys, compatibility, attended)


def trace_score(
    queries: Tensor,
    factors: TraceFactors,
    projections: Mapping[str, Tensor] | None = None,
    config: TraceConfig | None = None,
) -> Tensor:
    """Query-time half of TRACE: S_route + η·S_soft, gated where the configuration says so, (Q, D) → (Q, V)."""
    config = config or TraceConfig()
    curves = _curves(op.projected_unit(queries, (projections or {}).get("query")), factors, config)
    route, _ = op.concentrate(curves.routed, factors.frame_mask)
    return op.evidence_score(route, curves.soft, curves.activation, config.soft_weight, config.gate)


class _Curves(NamedTuple):
    """All pairs of projected queries and videos, before time is concentrated."""

    direct: Tensor  # (Q, V, M)
    affinity: Tensor  # (Q, V, R)
    activation: Tensor  # (Q, V, R)
    support: Tensor  # (Q, V, M)
    routed: Tensor  # (Q, V, M)
    soft: Tensor  # (Q, V)


def _curves(q: Tensor, factors: TraceFactors, config: TraceConfig) -> _Curves:
    direct = op.direct_evidence(q, factors.frames)
    affinity = op.register_affinity(q, factors.registers)
    activation = op.register_activation(affinity, config.temperature)
    support = op.routed_support(affinity, factors.compatibility, config.temperature)
    routed = op.routed_evidence(direct, support, config.routing_strength)
    soft = op.soft_score(q, activation, factors.attended)
    return _Curves(direct, affinity, activation, support, routed, soft)


def trace_evidence(
    queries: Tensor,
    registers: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    projections: Mapping[str, Tensor] | None = None,
    config: TraceConfig | None = None,
) -> Evidence:
    """Everything TRACE computes, step by step: (Q, D), (V, R, D), (V, M, D), (V, M) → Evidence.

    ``projections``: None (identity) or weights (D, D) named query, register_key, frame_key, frame_value.

    >>> q = torch.tensor([[1.0, 0.0]])
    >>> frames = torch.tensor([[[0.8, 0.6], [0.6, 0.8]]])
    >>> registers = torch.tensor([[[1.0, 0.0]]])
    >>> e = trace_evidence(q, registers, frames, torch.ones(1, 2))
    >>> e.direct, e.support, e.peak
    (tensor([[[0.8000, 0.6000]]]), tensor([[[1.8000, 1.6000]]]), tensor([[0]]))
    >>> e.route  # 0.8 + 0.3 · 1.8
    tensor([[1.3400]])
    """
    _check_projections(projections, queries.shape[-1])
    config = config or TraceConfig()
    factors = trace_factors(registers, frames, frame_mask, projections, config)
    mask = factors.frame_mask
    if not bool(mask.any(-1).all()):
        empty = (~mask.any(-1)).nonzero().flatten().tolist()
        raise ValueError(f"videos {empty[:5]} have no valid frame: drop them before scoring")
    curves = _curves(op.projected_unit(queries, (projections or {}).get("query")), factors, config)
    route, peak = op.concentrate(curves.routed, mask)
    attention = op.frame_attention(factors.compatibility, mask, config.temperature)
    return Evidence(
        direct=curves.direct.masked_fill(~mask, torch.nan),
        support=curves.support.masked_fill(~mask, torch.nan),
        routed=curves.routed.masked_fill(~mask, torch.nan),
        attention=torch.einsum("qvr,vrm->qvm", curves.activation, attention),
        affinity=curves.affinity,
        activation=curves.activation,
        compatibility=factors.compatibility.masked_fill(~mask[:, None], torch.nan),
        peak=peak,
        route=route,
        soft=curves.soft,
        score=op.evidence_score(route, curves.soft, curves.activation, config.soft_weight, config.gate),
    )


class Trace(nn.Module):
    """TRACE with learned projections: 4·D² parameters next to a backbone.

    >>> trace = Trace(width=4)
    >>> sum(p.numel() for p in trace.parameters())
    64
    """

    def __init__(self, width: int, config: TraceConfig | None = None):
        super().__init__()
        self.config = config or TraceConfig()
        self.width = width
        for name in PROJECTIONS:
            self.register_parameter(name, nn.Parameter(torch.empty(width, width)))
        self.initialise()

    def initialise(self) -> None:
        for weight in self.projections.values():
            nn.init.eye_(weight) if self.config.init == "identity" else nn.init.xavier_uniform_(weight)

    @property
    def projections(self) -> dict[str, Tensor]:
        return {name: self.get_parameter(name) for name in PROJECTIONS}

    def registers(self, videos: VideoTokens) -> Tensor:
        """What the query activates: the backbone's registers, or the hybrid set, (V, R, D)."""
        found = (with_anchors(videos, "hybrid") if self.config.anchors == "hybrid" else videos).registers
        if found is None:
            raise ValueError("these video tokens have no registers: add anchors pooled from local tokens first")
        return found

    def factors(self, videos: VideoTokens) -> TraceFactors:
        """What a gallery stores of each video."""
        return trace_factors(
            self.registers(videos), videos.evidence, videos.evidence_mask, self.projections, self.config
        )

    def forward(self, queries: Tensor, videos: VideoTokens | TraceFactors) -> Tensor:
        """The evidence score S_trace, (Q, D) → (Q, V)."""
        factors = videos if isinstance(videos, TraceFactors) else self.factors(videos)
        return trace_score(queries, factors, self.projections, self.config)

    def evidence(self, queries: Tensor, videos: VideoTokens) -> Evidence:
        """All intermediate results: (Q, D) → Evidence over (Q, V)."""
        return trace_evidence(
            queries, self.registers(videos), videos.evidence, videos.evidence_mask, self.projections, self.config
        )


def _check_projections(projections: Mapping[str, Tensor] | None, width: int) -> None:
    for name, weight in (projections or {}).items():
        if name not in PROJECTIONS:
            raise ValueError(f"unknown projection {name!r}; there are: {', '.join(PROJECTIONS)}")
        if weight.ndim != 2 or weight.shape[1] != width:
            raise ValueError(f"projection {name!r} has shape {tuple(weight.shape)}, expected ({width}, {width})")
