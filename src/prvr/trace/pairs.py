"""Evidence of aligned pairs: query n looks at video n and at no other.

Where one video per query is enough (its own, its hard negative, a hit on a page of results), this is M numbers per
query instead of V·M. ``pair_evidence`` holds the equations. Its input is a record of products, which
``PairProducts.of`` makes from tokens and ``prvr.scoring.gallery_evidence`` from the arrays of a gallery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from prvr.tokens import TensorRecord, VideoTokens
from prvr.trace import operator as op
from prvr.trace.config import TraceConfig
from prvr.trace.module import Trace, TraceFactors


@dataclass(frozen=True)
class PairProducts(TensorRecord):
    """What TRACE needs of N pairs: the products of each query with its own video, and the video's routes.

    Frames may come on P pages of equal size. M is P times the page.
    """

    direct: Tensor  # (N, M) d
    affinity: Tensor  # (N, R) a
    responses: Tensor  # (N, R) q·w_k
    grounded: Tensor  # (N, P, R, page) B = exp((b − b_max)/τ)
    ceiling: Tensor  # (N,) b_max
    gram: Tensor  # (N, R, R)

    @staticmethod
    def of(queries: Tensor, videos: TraceFactors, temperature: float) -> PairProducts:
        """From projected unit queries (N, D) and the factors of N videos."""
        exact = torch.float64 if op.may_underflow(temperature, videos.compatibility.dtype) else None
        valid = videos.frame_mask[:, None]
        grounded, ceiling = op.grounding_reach(videos.compatibility.masked_fill(~valid, -torch.inf), temperature, exact)
        return PairProducts(
            direct=_dots(videos.frames, queries),
            affinity=_dots(videos.registers, queries),
            responses=_dots(videos.attended, queries),
            grounded=torch.where(valid, grounded, 1.0)[:, None],  # padding must not turn into −∞ · 0
            ceiling=ceiling,
            gram=op.gram_matrix(videos.attended),
        )

    @staticmethod
    def of_one(queries: Tensor, video: TraceFactors, temperature: float) -> PairProducts:
        """From projected unit queries (N, D) that all look at one video: its factors have a single row."""
        count, one = len(queries), PairProducts.of(queries[:1], video, temperature)
        return PairProducts(
            direct=queries @ video.frames[0].T,
            affinity=queries @ video.registers[0].T,
            responses=queries @ video.attended[0].T,
            grounded=one.grounded.expand(count, -1, -1, -1),
            ceiling=one.ceiling.expand(count),
            gram=one.gram.expand(count, -1, -1),
        )


@dataclass(frozen=True)
class PairEvidence(TensorRecord):
    """TRACE's curves for N pairs."""

    direct: Tensor  # (N, M) d
    support: Tensor  # (N, M) ρ
    expected_support: Tensor  # (N, M) ḡ = Σ_k π_k b_ki, support on the cosine scale
    routed: Tensor  # (N, M) d + γρ
    score: Tensor  # (N, M) the evidence score if this frame were the best; its maximum is S_trace
    activation: Tensor  # (N, R) π
    soft: Tensor  # (N,) S_soft

    @property
    def direct_peak(self) -> Tensor:
        """The frame that plain max picks, (N,)."""
        return self.direct.argmax(-1)

    @property
    def routed_peak(self) -> Tensor:
        """The frame that TRACE picks, (N,)."""
        return self.routed.argmax(-1)

    @property
    def direct_at_peak(self) -> Tensor:
        return self.direct.amax(-1)

    @property
    def support_at_peak(self) -> Tensor:
        """Expected support where direct evidence peaks, (N,)."""
        return self.expected_support.gather(-1, self.direct_peak[:, None]).squeeze(-1)

    @property
    def unsupported_gap(self) -> Tensor:
        return self.direct_at_peak - self.support_at_peak


def pair_evidence(pairs: PairProducts, config: TraceConfig) -> PairEvidence:
    """The evidence of aligned pairs. Padded frames get numbers too: cut or mask them.

    >>> frames = torch.tensor([[[0.8, 0.6], [0.6, 0.8]]])
    >>> registers = torch.tensor([[[0.0, 1.0]]])
    >>> b = registers @ frames.transpose(1, 2)
    >>> factors = TraceFactors(frames, torch.ones(1, 2, dtype=torch.bool), registers, b, registers)
    >>> config = TraceConfig()
    >>> found = pair_evidence(PairProducts.of(torch.tensor([[1.0, 0.0]]), factors, config.temperature), config)
    >>> found.direct_peak, round(float(found.unsupported_gap), 2)  # 0.8 seen, 0.6 supported
    (tensor([0]), 0.2)
    """
    tau, ceiling, grounded = config.temperature, pairs.ceiling[:, None], pairs.grounded
    activation = op.register_activation(pairs.affinity, tau)
    # At low temperatures A leaves float32 just as B does.
    reach, strongest = op.register_reach(pairs.affinity.to(grounded.dtype), tau)
    strongest = strongest.to(pairs.affinity.dtype)
    support = op.support_of_paths(_over_registers(reach, grounded), strongest, ceiling, tau)
    expected = ceiling + tau * _over_registers(activation.to(grounded.dtype), grounded.log()).to(ceiling.dtype)
    routed = op.routed_evidence(pairs.direct, support, config.routing_strength)
    soft = op.soft_score_of_responses(pairs.responses, activation, pairs.gram)
    score = op.evidence_score(routed, soft[:, None], activation[:, None], config.soft_weight, config.gate)
    return PairEvidence(pairs.direct, support, expected, routed, score, activation, soft)


def factor_evidence(queries: Tensor, videos: TraceFactors, config: TraceConfig) -> PairEvidence:
    """Projected unit queries (N, D) and the factors of N videos → their evidence.

    Padded frames hold −∞ in the direct, routed and score curves: they never win a maximum.
    """
    found = pair_evidence(PairProducts.of(queries, videos, config.temperature), config)
    padded = ~videos.frame_mask
    hidden = {name: getattr(found, name).masked_fill(padded, -torch.inf) for name in ("direct", "routed", "score")}
    return replace(found, **hidden)


def aligned_evidence(trace: Trace, queries: Tensor, videos: VideoTokens) -> PairEvidence:
    """The evidence of queries (N, D) in N videos, as ``factor_evidence`` gives it."""
    projected = op.projected_unit(queries, trace.projections["query"])
    return factor_evidence(projected, trace.factors(videos), trace.config)


def _dots(tokens: Tensor, queries: Tensor) -> Tensor:
    """(N, K, D), (N, D) → (N, K)."""
    return (tokens @ queries[..., None]).squeeze(-1)


def _over_registers(weights: Tensor, paths: Tensor) -> Tensor:
    """(N, R), (N, P, R, page) → (N, P·page); not as a product, which would copy the paths into another order first."""
    return (weights[:, None, :, None] * paths).sum(2).flatten(1)
