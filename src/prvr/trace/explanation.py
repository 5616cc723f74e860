"""Why a video matched: the evidence of one pair, in numbers a person can read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import operator as op
from prvr.trace.config import TraceConfig
from prvr.trace.module import Trace
from prvr.trace.pairs import PairEvidence, aligned_evidence


@dataclass(frozen=True)
class Explanation:
    """TRACE's account of one query and one video. Curves have one value per valid frame."""

    direct: Tensor  # (M,) what the query saw in each frame
    support: Tensor  # (M,) ρ: support by the activated registers
    expected_support: Tensor  # (M,) ḡ: the same on the cosine scale
    routed: Tensor  # (M,) d + γρ
    activation: Tensor  # (R,) π
    certainty: float  # 1 − H(π)/log R
    direct_peak: int  # the frame plain max pooling picks
    routed_peak: int  # the frame TRACE picks
    unsupported_gap: float  # direct evidence minus expected support at the direct peak
    base: float
    route: float
    soft: float
    final: float
    gated: bool  # whether certainty scaled the evidence

    @staticmethod
    def of(pairs: PairEvidence, row: int, base: float, config: TraceConfig) -> Explanation:
        """The explanation of one of many pairs, without its padded frames, whose curves hold −∞."""
        valid = pairs.direct[row].isfinite()
        direct, expected = pairs.direct[row, valid], pairs.expected_support[row, valid]
        routed, peak = pairs.routed[row, valid], int(direct.argmax())
        return Explanation(
            direct=direct,
            support=pairs.support[row, valid],
            expected_support=expected,
            routed=routed,
            activation=pairs.activation[row],
            certainty=float(op.certainty(pairs.activation[row])),
            direct_peak=peak,
            routed_peak=int(routed.argmax()),
            unsupported_gap=float(direct[peak] - expected[peak]),
            base=base,
            route=float(routed.max()),
            soft=float(pairs.soft[row]),
            final=base + config.fusion_weight * float(pairs.score[row].max()),
            gated=config.gate,
        )

    @property
    def moved(self) -> bool:
        """Whether verification changed which frame is trusted."""
        return self.direct_peak != self.routed_peak

    def __str__(self) -> str:
        strongest = int(self.activation.argmax())
        gate = f" (certainty {self.certainty:.3f} scales the evidence)" if self.gated else ""
        return (
            f"direct peak {self.direct[self.direct_peak]:.3f} at frame {self.direct_peak}, "
            f"support there {self.expected_support[self.direct_peak]:.3f} (gap {self.unsupported_gap:+.3f}); "
            f"TRACE trusts frame {self.routed_peak}; register {strongest} carries "
            f"{100 * float(self.activation[strongest]):.0f} %{gate}; score {self.base:.4f} → {self.final:.4f}"
        )


@torch.no_grad()
def explain_pair(query: Tensor, video: VideoTokens, trace: Trace, base: Tensor | float = 0.0) -> Explanation:
    """Explain one pair: a query vector (D,), the tokens of one video, its base score.

    >>> two = torch.eye(2)[None]  # two frames, two clips, two registers
    >>> tokens = VideoTokens(two, torch.ones(1, 2, dtype=torch.bool), two, two)
    >>> explain_pair(torch.tensor([1.0, 0.0]), tokens, Trace(2), base=0.5).routed_peak
    0
    """
    if len(video) != 1:
        raise ValueError(f"explain takes one video, got {len(video)}")
    return Explanation.of(aligned_evidence(trace, query[None], video), 0, float(base), trace.config)
