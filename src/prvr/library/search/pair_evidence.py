"""Evidence of many (query, video) pairs in one go: what a page of results needs, or the pages of a batch of searches.

``prvr.scoring`` computes it for rows of galleries. Here pairs are grouped by shard, and the sections of a video are
joined again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from prvr.library.search.evidence import Asked, MomentEvidence
from prvr.library.search.passes import gallery_evidence
from prvr.scoring import AlignedPairs, GalleryEvidence

if TYPE_CHECKING:
    from prvr.library.store.snapshot import Mapped, TrackView

_CURVES = ("direct", "support", "routed", "value")


class _Item(NamedTuple):
    """A pair's look at one section."""

    pair: int
    section: int
    row: int  # in the shard
    pages: int
    tokens: int


def evidence_of(view: TrackView, asked: Sequence[Asked]) -> list[MomentEvidence]:
    """Evidence of each query in all sections of its video, in order of time."""
    groups: dict[tuple[int, float], list[_Item]] = defaultdict(list)
    for number, each in enumerate(asked):
        for section in each.sections:
            shard, row, tokens = view.places[section]
            groups[shard, each.weight].append(_Item(number, section, row, view.shards[shard].pages[row], tokens))
    for items in groups.values():
        items.sort(key=lambda item: (item.pages, item.section))
    pairs = [
        AlignedPairs(
            queries=torch.stack([asked[item.pair].query for item in items]),
            gallery=view.shards[shard].gallery,
            rows=[item.row for item in items],
            fusion_weight=weight,
        )
        for (shard, weight), items in groups.items()
    ]
    parts: list[list[MomentEvidence]] = [[] for _ in asked]
    for ((shard, _), items), found in zip(groups.items(), gallery_evidence(pairs), strict=True):
        for item, evidence in zip(items, _cut(found, view.shards[shard], items), strict=True):
            parts[item.pair].append(evidence)
    return [_joined(each) for each in parts]


def _cut(found: GalleryEvidence, shard: Mapped, items: Sequence[_Item]) -> list[MomentEvidence]:
    """The curves of each section over its own tokens, with their times."""
    curves = [curve.numpy() for curve in (found.direct, found.expected_support, found.routed, found.value)]
    activation, gallery = found.activation.numpy(), shard.gallery
    starts = [int(gallery.first_page[item.row]) * gallery.page for item in items]
    return [
        MomentEvidence(
            spans=shard.spans[start : start + item.tokens],
            activation=activation[number],
            **{name: curve[number, : item.tokens] for name, curve in zip(_CURVES, curves, strict=True)},
        )
        for number, (item, start) in enumerate(zip(items, starts, strict=True))
    ]


def _joined(parts: list[MomentEvidence]) -> MomentEvidence:
    """Sections of a video as one. Where two overlap, what both saw is told as the one saw it that makes more of it."""
    if len(parts) == 1 and bool((np.diff(parts[0].spans[:, 0]) > 0).all()):
        return parts[0]
    best = max(parts, key=lambda part: float(part.value.max()))
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("spans", *_CURVES)}
    order = np.lexsort((-joined["value"], joined["spans"][:, 1], joined["spans"][:, 0]))
    spans = joined["spans"][order]
    order = order[np.concatenate([[True], (spans[1:] != spans[:-1]).any(1)])]
    return MomentEvidence(**{name: array[order] for name, array in joined.items()}, activation=best.activation)
