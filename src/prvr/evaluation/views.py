"""What each query sees in two single videos: its own, and its hard negative."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.evaluation.encoded_split import EncodedSplit
from prvr.evaluation.subject import Subject
from prvr.tokens import TensorRecord
from prvr.trace import PairEvidence, VariantFactors, factor_evidence

CHUNK = 128


@dataclass(frozen=True)
class PairViews:
    """Curves over the evidence tokens of one video per query; padding holds −∞."""

    base: Tensor  # (Q, M) the backbone's own cosine of query and frame, in the query's own video
    frames: Tensor  # (Q,) valid frames of that video
    clip: Tensor | None  # (Q,) its best clip; None where the method has no clips in time order
    clips: int  # clips per video
    truth: PairEvidence | None  # TRACE's curves in the query's own video; None without TRACE
    negative: PairEvidence | None  # and in its hard negative


@torch.no_grad()
def pair_views(subject: Subject, split: EncodedSplit, truth: Tensor, negative: Tensor) -> PairViews:
    """Look at the video ``truth[n]`` and the video ``negative[n]`` with query n: (Q,), (Q,)."""
    videos = split.videos
    has_both = videos.evidence_from == "frames" and videos.clips.shape[1] == subject.config.model.clips
    base: list[Tensor] = []
    clip: list[Tensor] = []
    own: list[PairEvidence] = []
    other: list[PairEvidence] = []
    for rows in torch.split(torch.arange(len(truth)), CHUNK):
        here = rows.to(split.queries.device)
        there = truth[rows].to(here.device)
        base.append(_cosines(split.queries[here], videos.evidence[there], videos.evidence_mask[there]))
        if has_both:
            whole = torch.ones(len(rows), videos.clips.shape[1], dtype=torch.bool, device=here.device)
            clip.append(_cosines(split.queries[here], videos.clips[there], whole).argmax(1))
        if split.factors is not None and split.projected is not None:
            for found, which in ((own, truth), (other, negative)):
                factors = _rows(split.factors, which[rows])
                evidence = factor_evidence(split.projected[here], factors, subject.model.trace.config)
                found.append(evidence.to("cpu"))
    return PairViews(
        base=torch.cat(base).cpu(),
        frames=videos.evidence_mask.sum(1).cpu()[truth],
        clip=torch.cat(clip).cpu() if clip else None,
        clips=videos.clips.shape[1],
        truth=TensorRecord.cat(own) if own else None,
        negative=TensorRecord.cat(other) if other else None,
    )


def _rows(factors: VariantFactors, rows: Tensor) -> VariantFactors:
    return factors.map(lambda tensor: tensor[rows.to(tensor.device)])


def _cosines(queries: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Unit queries (n, D) against their own tokens (n, K, D) → (n, K)."""
    unit = torch.nn.functional.normalize(tokens, dim=-1)
    return (unit @ queries[..., None]).squeeze(-1).masked_fill(~mask, -torch.inf)
