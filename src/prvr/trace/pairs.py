"""Evidence of aligned pairs: query n looks at video n and at no other.

Where a table asks about one video per query (its own, or its hard negative), this is M numbers per query instead of
V·M.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.tokens import TensorRecord
from prvr.trace import operator as op
from prvr.trace.module import TraceConfig, TraceFactors


@dataclass(frozen=True)
class PairEvidence(TensorRecord):
    """TRACE's curves for N pairs. Padded frames hold −∞: they never win a maximum."""

    direct: Tensor  # (N, M) d
    routed: Tensor  # (N, M) d + γρ
    expected_support: Tensor  # (N, M) ḡ = Σ_k π_k b_ki
    activation: Tensor  # (N, R) π

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


def pair_evidence(queries: Tensor, videos: TraceFactors, config: TraceConfig) -> PairEvidence:
    """Projected unit queries (N, D) and the factors of N videos → their evidence.

    >>> frames = torch.tensor([[[0.8, 0.6], [0.6, 0.8]]])
    >>> registers = torch.tensor([[[0.0, 1.0]]])
    >>> b = registers @ frames.transpose(1, 2)
    >>> factors = TraceFactors(frames, torch.ones(1, 2, dtype=torch.bool), registers, b, registers)
    >>> found = pair_evidence(torch.tensor([[1.0, 0.0]]), factors, TraceConfig())
    >>> found.direct_peak, round(float(found.unsupported_gap), 2)  # 0.8 seen, 0.6 supported
    (tensor([0]), 0.2)
    """
    direct = _dots(videos.frames, queries)
    affinity = _dots(videos.registers, queries)
    paths = (affinity[..., None] + videos.compatibility) / config.temperature  # (N, R, M)
    support = config.temperature * paths.logsumexp(1)
    activation = op.register_activation(affinity, config.temperature)
    padded = ~videos.frame_mask
    return PairEvidence(
        direct=direct.masked_fill(padded, -torch.inf),
        routed=op.routed_evidence(direct, support, config.routing_strength).masked_fill(padded, -torch.inf),
        expected_support=torch.einsum("nr,nrm->nm", activation, videos.compatibility),
        activation=activation,
    )


def _dots(tokens: Tensor, queries: Tensor) -> Tensor:
    """(N, K, D), (N, D) → (N, K)."""
    return (tokens @ queries[..., None]).squeeze(-1)
