"""A split encoded once, with the time it took. Every diagnostic starts from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import TokenSet, max_dot
from prvr.evaluation.significance import SEED
from prvr.evaluation.subject import Subject
from prvr.evaluation.timing import TimeLog, time_retrieval
from prvr.scoring import encode_query_batches, encode_video_batches, evaluation_mode, join_videos
from prvr.tokens import VideoTokens
from prvr.trace import VariantFactors, variant_factors
from prvr.trace import operator as op
from prvr.training import split_scores


@dataclass(frozen=True)
class EncodedSplit:
    """Encoded queries and videos, and the part of TRACE that does not depend on the query."""

    queries: Tensor  # (Q, D) unit vectors, or packed words of a method that keeps them
    videos: VideoTokens
    sets: tuple[TokenSet, ...]  # unit tokens whose best cosines make the base score; empty for a pairwise method
    pair_scores: Tensor | None  # (Q, V) base scores of a pairwise method
    projected: Tensor | None  # (Q, D) TRACE's projected unit queries
    factors: VariantFactors | None
    times: TimeLog

    def base(self, rows: slice, videos: slice) -> Tensor:
        """Base scores of some queries against some videos."""
        if self.pair_scores is not None:
            return self.pair_scores[rows, videos]
        return torch.stack([s.weight * max_dot(self.queries[rows], s.tokens[videos]) for s in self.sets]).sum(0)

    @property
    def has_vectors(self) -> bool:
        """Whether a query is one vector that can be compared with tokens."""
        return self.queries.ndim == 2


@torch.no_grad()
def encode_subject(subject: Subject, *, timed: bool = True) -> EncodedSplit:
    """Encode queries and gallery, and prepare all variants of TRACE where the run has it.

    ``timed`` also scores as a search does, to measure how long that takes.
    """
    backbone, dataset, times = subject.model.backbone, subject.dataset, TimeLog()
    with times.measure("query encoding"):
        queries = encode_query_batches(backbone, dataset.query_batches())
    with times.measure("gallery encoding"), evaluation_mode(backbone):
        videos = join_videos(list(encode_video_batches(backbone, dataset.video_batches())))
    sets: tuple[TokenSet, ...] = ()
    pair_scores = projected = factors = None
    if not backbone.separable:
        with times.measure("base similarity"):
            pair_scores = split_scores(subject.model, dataset, use_trace=False).base
    if timed:  # here, while memory holds nothing else
        time_retrieval(subject, times, queries, videos, pair_scores)
    if backbone.separable:
        sets = backbone.token_sets(videos)
        if backbone.unit_tokens:
            sets = tuple(TokenSet(s.weight, F.normalize(s.tokens, dim=-1)) for s in sets)
    if subject.with_trace:
        trace = subject.model.trace
        with times.measure("TRACE factors"):
            for start in range(0, len(videos), 64):
                trace.factors(videos[start : start + 64])
        factors = variant_factors(trace, videos, seed=SEED)
        projected = op.projected_unit(queries, trace.projections["query"])
    unit = F.normalize(queries, dim=-1) if queries.ndim == 2 else queries
    return EncodedSplit(unit, videos, sets, pair_scores, projected, factors, times)
