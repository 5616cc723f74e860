"""Negatives for a method that re-ranks another's results: videos that its first stage confuses with the right one.

A query's list holds the videos that the first stage ranks above the right one or not far below it. Full lists would
fill gigabytes, so a part of each is drawn once, from the run's seed, and each step draws its negatives from that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from prvr.backbones import Backbone, FirstStage
from prvr.data import Dataset
from prvr.scoring import Gallery, encode_query_batches, score
from prvr.training.validation import load_first_stage, split_scores

_KEPT = 64  # videos kept of each query's list
_BLOCK = 512  # queries ranked together


class Lists(NamedTuple):
    """The list of each query, without the right video: the first ``length`` (Q,) videos of each row, (Q, K)."""

    videos: Tensor
    length: Tensor


@dataclass(frozen=True)
class ListedNegatives:
    """The kept part of each training query's list, and how many negatives a step draws from it."""

    kept: Lists
    negatives: int

    def drawing(self, seed: int) -> Callable[[Tensor], Tensor]:
        """A function of queries (N,) that draws videos for each of them, (N, S), without repetition in a row.

        What it draws depends on ``seed`` alone.
        """

        def draw(queries: Tensor) -> Tensor:
            generator = torch.Generator().manual_seed(seed)
            lists = Lists(self.kept.videos[queries], self.kept.length[queries])
            return draw_from_lists(lists, self.negatives, generator).videos

        return draw


def listed_negatives(backbone: Backbone, dataset: Dataset, seed: int) -> ListedNegatives | None:
    """Rank the training split with the method's first stage.

    Returns None where the method has no first stage, or does not learn from it.
    """
    stage = backbone.first_stage
    if stage is None or stage.negatives == 0:
        return None
    device = next(backbone.parameters()).device
    negatives = min(stage.negatives, len(dataset) - 1)
    generator, kept, start = torch.Generator().manual_seed(seed), [], 0
    for scores in first_stage_scores(stage, dataset, device):
        truth = dataset.query_video[start : start + len(scores)]
        start += len(scores)
        lists = ranked_lists(scores.cpu(), truth, stage.reach, least=negatives)
        kept.append(draw_from_lists(lists, _KEPT, generator))
    return ListedNegatives(Lists(*(torch.cat(column) for column in zip(*kept, strict=True))), negatives)


def first_stage_scores(stage: FirstStage, dataset: Dataset, device: torch.device) -> Iterator[Tensor]:
    """The first stage's scores of all queries, block by block: (q, V) each."""
    model, with_trace = load_first_stage(stage, device)
    weight = model.trace.config.fusion_weight
    if not model.backbone.separable:
        yield from torch.split(split_scores(model, dataset, use_trace=with_trace).final(weight), _BLOCK)
        return
    with torch.no_grad():
        gallery = Gallery.build(model.backbone, model.trace if with_trace else None, dataset.video_batches())
        queries = encode_query_batches(model.backbone, dataset.query_batches())
        for block in torch.split(queries, _BLOCK):
            yield score(block, gallery, fusion_weight=weight)


def ranked_lists(scores: Tensor, truth: Tensor, reach: float, least: int = 1) -> Lists:
    """Each query's list: all other videos, best first, and how many of them are in the list.

    A list ends ``reach`` (as a share of all videos) below the right video. No list is shorter than ``least``.

    >>> ranked_lists(torch.tensor([[0.9, 0.5, 0.7, 0.1]]), torch.tensor([2]), reach=0.25)
    Lists(videos=tensor([[0, 1, 3]]), length=tensor([2]))
    """
    videos = scores.shape[1]
    order = scores.argsort(dim=1, descending=True, stable=True)
    right = order == truth[:, None]
    above = right.int().argmax(1)  # how many are ranked above the right one
    others = order[~right].view(len(scores), videos - 1)
    return Lists(others, (above + round(reach * videos)).clamp(min=least, max=videos - 1))


def draw_from_lists(lists: Lists, most: int, generator: torch.Generator) -> Lists:
    """At most ``most`` videos of each list, drawn uniformly and without repetition."""
    size = lists.videos.shape[1]
    beyond = torch.arange(size) >= lists.length[:, None]
    keys = torch.rand(lists.videos.shape, generator=generator).masked_fill(beyond, -1.0)
    first = keys.argsort(dim=1, descending=True)[:, :most]  # those beyond the list come last
    return Lists(lists.videos.gather(1, first), lists.length.clamp(max=first.shape[1]))
