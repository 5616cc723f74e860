"""Frozen transfer: TRACE on a backbone that was trained without it, with anchors for registers.

Anchor and λ are chosen on the validation split only, then fixed. No parameter of the backbone changes; tokens are
encoded once and every choice is tried on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from prvr.backbones import Backbone
from prvr.data import Dataset
from prvr.evaluation.significance import Comparison, compare_ranks
from prvr.scoring import NotSeparable, Recall, encode_query_batches, ranks, recalls, sweep_anchors
from prvr.tokens import VideoTokens
from prvr.trace import ANCHOR_KINDS, TraceConfig, fuse, with_anchors

PAPER_ANCHORS = ("temporal-4", "temporal-6", "temporal-8", "global-4")  # those that its Table S1 selects
PAPER_LAMBDAS = (0.0, 0.01, 0.015, 0.06, 0.1, 0.12, 0.15, 0.2)
TRANSFER_LAMBDAS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.06, 0.1, 0.12, 0.15, 0.2, 0.3)  # 0: TRACE is left out


@dataclass(frozen=True)
class TransferSplit:
    """A split as a frozen backbone sees it."""

    queries: Tensor  # (Q, D)
    videos: VideoTokens
    base: Tensor  # (Q, V)
    truth: Tensor  # (Q,)
    query_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """What was chosen on validation, and what it gives on the reported split."""

    anchor: str
    tokens: str  # what anchors are pooled from: the backbone's frames or clips
    fusion_weight: float
    validation: Mapping[tuple[str, float], float]  # SumR of each choice
    validation_base: float
    base: Recall
    final: Recall
    comparison: Comparison
    same_split: bool  # whether the choice was made on the very queries that are reported
    ranks: Mapping[str, Tensor]  # (Q,) each, of base and final

    @property
    def validation_gain(self) -> float:
        """ΔSumR of the choice where it was made; not above 0 where no anchor helped there."""
        return self.validation[self.anchor, self.fusion_weight] - self.validation_base

    def as_dict(self) -> dict[str, Any]:
        """All but the ranks, ready for JSON."""
        return {
            "anchor": self.anchor,
            "tokens": self.tokens,
            "fusion_weight": self.fusion_weight,
            "base": self.base.as_dict(),
            "final": self.final.as_dict(),
            "comparison": self.comparison.as_dict(),
            "validation_base": self.validation_base,
            "chosen_on_the_reported_split": self.same_split,
            "validation": [
                {"anchor": anchor, "fusion_weight": weight, "sum_r": found}
                for (anchor, weight), found in self.validation.items()
            ],
        }


@torch.no_grad()
def encode_split(backbone: Backbone, dataset: Dataset) -> TransferSplit:
    """Encode a split once, on the backbone's device."""
    device = backbone.device
    backbone.eval()
    batches = (batch.to(device) for batch in dataset.video_batches())
    tokens = [backbone.encode_video_batch(batch).to(torch.float32) for batch in batches]
    videos: VideoTokens = VideoTokens.cat(tokens)
    queries = encode_query_batches(backbone, dataset.query_batches())
    if queries.ndim != 2:
        raise NotSeparable(f"{backbone.method} keeps a query's words, but TRACE needs each query as one vector")
    base = torch.cat([backbone.base_score(queries, part) for part in tokens], 1)
    return TransferSplit(queries, videos, base, dataset.query_video.to(device), dataset.query_ids)


def transfer_trace(
    validation: TransferSplit,
    reported: TransferSplit,
    *,
    kinds: Sequence[str] | None = None,
    lambdas: Sequence[float] = TRANSFER_LAMBDAS,
    config: TraceConfig | None = None,
) -> Transfer:
    """Choose anchor and λ by validation SumR (of equals the first listed), then report with both fixed.

    Args:
        validation: where the choice is made.
        reported: where it is reported.
        kinds: anchors to try; by default all kinds, and the backbone's registers where it has some.
        lambdas: fusion weights to try; with 0 among them, TRACE can be left out.
        config: of the operator.
    """
    if kinds is None:
        kinds = (*(("registers",) if validation.videos.registers is not None else ()), *ANCHOR_KINDS)
    tried = _validation_table(validation, kinds, lambdas, config)
    anchor, weight = max(tried, key=lambda choice: tried[choice])
    base = ranks(reported.base, reported.truth).cpu()
    final = ranks(_fused(reported, anchor, weight, config), reported.truth).cpu()
    return Transfer(
        anchor=anchor,
        tokens=reported.videos.evidence_from,
        fusion_weight=weight,
        validation=tried,
        validation_base=recalls(ranks(validation.base, validation.truth)).sum_r,
        base=recalls(base),
        final=recalls(final),
        comparison=compare_ranks(base, final),
        same_split=bool(reported.query_ids) and validation.query_ids == reported.query_ids,
        ranks={"base": base, "final": final},
    )


def _validation_table(
    split: TransferSplit, kinds: Sequence[str], lambdas: Sequence[float], config: TraceConfig | None
) -> dict[tuple[str, float], float]:
    evidence = sweep_anchors(split.queries, split.videos, _anchors(split, kinds), config)
    return {
        (kind, weight): recalls(ranks(fuse(split.base, evidence[kind], weight), split.truth)).sum_r
        for kind in kinds
        for weight in lambdas
    }


def _fused(split: TransferSplit, kind: str, weight: float, config: TraceConfig | None) -> Tensor:
    evidence = sweep_anchors(split.queries, split.videos, _anchors(split, [kind]), config)[kind]
    return fuse(split.base, evidence, weight)


def _anchors(split: TransferSplit, kinds: Sequence[str]) -> dict[str, Tensor]:
    made = {kind: with_anchors(split.videos, kind).registers for kind in kinds}
    return {kind: anchor for kind, anchor in made.items() if anchor is not None}
