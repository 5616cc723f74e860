"""Encoding with a backbone at rest; queries as the vectors that a gallery is scored with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from prvr.backbones import Backbone, join_queries
from prvr.tokens import QueryBatch


@torch.no_grad()
def encode_queries(backbone: Backbone, batches: Iterable[QueryBatch]) -> Tensor:
    """Every query's vector, on the backbone's device, (Q, D); or its packed words (see ``blocks.packed_words``)."""
    moved = (batch.to(backbone.device) for batch in batches)
    with resting(backbone):
        return join_queries([backbone.encode_queries(batch.tokens, batch.mask).float() for batch in moved])


@contextmanager
def resting(backbone: Backbone) -> Iterator[None]:
    """Evaluation mode for a while."""
    was_training = backbone.training
    backbone.eval()
    try:
        yield
    finally:
        backbone.train(was_training)
