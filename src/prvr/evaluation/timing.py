"""How long a search takes, with the engine that searches use."""

from __future__ import annotations

import torch
from torch import Tensor

from prvr.evaluation.clock import Clock
from prvr.evaluation.subject import Subject
from prvr.scoring import Gallery, ranks, score_parts
from prvr.tokens import VideoTokens


@torch.no_grad()
def time_retrieval(
    subject: Subject, clock: Clock, queries: Tensor, videos: VideoTokens, pair_scores: Tensor | None
) -> None:
    """Note on a clock: similarity by the base alone and with TRACE, and ranking. Encoding is noted already.

    A method that scores each pair anew was timed when its scores were made.
    """
    backbone, scores = subject.model.backbone, pair_scores
    for name, trace in {"base similarity": None, "TRACE similarity": subject.model.trace}.items():
        if not backbone.separable or (trace is not None and not subject.with_trace):
            continue
        gallery = Gallery.of_tokens(backbone, trace, videos)
        with clock.measure(name):
            scores = score_parts(queries, gallery).base
        del gallery  # before the next one is made: each is a copy of all tokens
    assert scores is not None
    with clock.measure("ranking"):
        ranks(scores, subject.dataset.query_video.to(scores.device))
