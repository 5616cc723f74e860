"""Encode queries and videos with a backbone in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from prvr.backbones import Backbone, join_queries
from prvr.tokens import QueryBatch, VideoBatch, VideoTokens


@contextmanager
def evaluation_mode(backbone: Backbone) -> Iterator[None]:
    """Evaluation mode inside the block; the previous mode is restored afterwards."""
    was_training = backbone.training
    backbone.eval()
    try:
        yield
    finally:
        backbone.train(was_training)


@torch.no_grad()
def encode_query_batches(backbone: Backbone, batches: Iterable[QueryBatch]) -> Tensor:
    """Every query's vector, on the backbone's device, (Q, D); or its packed words (see ``blocks.packed_words``)."""
    moved = (batch.to(backbone.device) for batch in batches)
    with evaluation_mode(backbone):
        return join_queries([backbone.encode_queries(batch.tokens, batch.mask).float() for batch in moved])


def encode_video_batches(backbone: Backbone, batches: Iterable[VideoBatch]) -> Iterator[VideoTokens]:
    """The tokens of batch after batch, on the backbone's device, in float32."""
    device = backbone.device
    for batch in batches:
        yield backbone.encode_video_batch(batch.to(device)).to(torch.float32)


def join_videos(parts: list[VideoTokens]) -> VideoTokens:
    """One corpus of batches that were padded each to its own longest video."""
    if not parts:
        raise ValueError("no videos were given to re-rank")
    longest = max(part.frames.shape[1] for part in parts)
    return VideoTokens.cat([part.padded(longest) for part in parts])
