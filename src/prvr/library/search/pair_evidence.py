"""Evidence of many (query, video) pairs in one go: what a page of results needs, or the pages of a batch of searches.

The equations are ``trace.operator``'s, on pairs that stand side by side, (N, …). Videos of different length are padded
to the longest of their group, and cut again at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.search.evidence import Asked, MomentEvidence
from prvr.library.search.passes import spread
from prvr.scoring import Gallery
from prvr.scoring.engines.common import prepare_queries
from prvr.scoring.engines.factorised import enough_columns, products
from prvr.scoring.storage import Vectors
from prvr.trace import operator as op

if TYPE_CHECKING:
    from prvr.library.store.snapshot import TrackView

_LARGEST = 1 << 18  # numbers in the largest temporary: larger ones cost more to get from the system than to fill
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
    chunks = [
        (shard, weight, some)
        for (shard, weight), items in groups.items()
        for some in _chunks(sorted(items, key=lambda item: (item.pages, item.section)), view.shards[shard].gallery)
    ]

    def look(chunk: tuple[int, float, list[_Item]]) -> list[MomentEvidence]:
        shard, weight, some = chunk
        queries = torch.stack([asked[item.pair].query for item in some])
        return _together(queries, view.shards[shard].gallery, view.shards[shard].spans, some, weight)

    parts: list[list[MomentEvidence]] = [[] for _ in asked]
    for (_, _, some), found in zip(chunks, spread(look, chunks), strict=True):
        for item, evidence in zip(some, found, strict=True):
            parts[item.pair].append(evidence)
    return [_joined(each) for each in parts]


def _chunks(items: list[_Item], gallery: Gallery) -> Iterator[list[_Item]]:
    """Items of about the same length, in groups whose temporaries stay small."""
    assert gallery.registers is not None
    registers = gallery.registers.shape[1]
    some: list[_Item] = []
    for item in items:  # shortest first: the newcomer is the longest
        if some and (len(some) + 1) * registers * max(gallery.width, item.pages * gallery.page) > _LARGEST:
            yield some
            some = []
        some.append(item)
    if some:
        yield some


@torch.no_grad()
def _together(
    queries: Tensor, gallery: Gallery, spans: NDArray[np.float32], items: list[_Item], weight: float
) -> list[MomentEvidence]:
    assert gallery.keys is not None
    assert gallery.registers is not None
    assert gallery.values is not None
    assert gallery.routes is not None
    config, tau = gallery.config, gallery.config.temperature
    asked = prepare_queries(queries, gallery)
    scale = asked.scale[:, None]
    rows = torch.tensor([item.row for item in items])
    first = gallery.first_page[rows]
    count = torch.tensor([item.pages for item in items])
    pages = first[:, None] + torch.minimum(torch.arange(int(count.max())), count[:, None] - 1)  # (N, P)
    local = _responses(gallery.local, asked.unit, gallery, items)  # (N, M)
    direct = scale * (local if gallery.keys is gallery.local else _responses(gallery.keys, asked.unit, gallery, items))
    affinity = scale * _dots(gallery.registers, rows, asked.unit)  # a (N, R)
    activation = op.register_activation(affinity, tau)
    paths = gallery.routes.grounding.index_select(0, pages.flatten())  # exp((b − b_max)/τ)
    paths = paths.view(*pages.shape, *paths.shape[1:])  # (N, P, R, page)
    strongest = affinity.amax(1, keepdim=True)
    reach = ((affinity - strongest) / tau).to(paths.dtype).exp()
    ceiling = gallery.routes.ceiling[rows].float()[:, None]
    support = strongest + ceiling + tau * _over_registers(reach, paths).log().float()
    routed = op.routed_evidence(direct, support, config.routing_strength)
    along = (activation * scale * _dots(gallery.values, rows, asked.unit)).sum(1)
    squared = torch.einsum("nr,nrs,ns->n", activation, gallery.routes.gram[rows].float(), activation)
    soft = op.soft_cosine(along, squared)[:, None]
    score = op.evidence_score(routed, soft, activation[:, None], config.soft_weight, config.gate)
    value = op.fuse(gallery.weights.paged * local + _fixed(gallery, rows, asked.unit), score, weight)
    expected = ceiling + tau * _over_registers(activation.to(paths.dtype), paths.log()).float()
    curves = {name: curve.numpy() for name, curve in zip(_CURVES, (direct, expected, routed, value), strict=True)}
    activated, starts = activation.numpy(), (first * gallery.page).tolist()
    return [
        MomentEvidence(
            spans=spans[start : start + item.tokens],
            activation=activated[number],
            **{name: curve[number, : item.tokens] for name, curve in curves.items()},
        )
        for number, (item, start) in enumerate(zip(items, starts, strict=True))
    ]


def _responses(vectors: Vectors, queries: Tensor, gallery: Gallery, items: list[_Item]) -> Tensor:
    """Products of each query with the tokens of its own section, (N, M); each section is read once."""
    found = torch.zeros(len(items), items[-1].pages * gallery.page)
    of_section: dict[int, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        of_section[item.section].append(number)
    for numbers in of_section.values():
        row, pages = items[numbers[0]].row, items[numbers[0]].pages
        start = int(gallery.first_page[row])
        response = products("pairs", vectors[start : start + pages], enough_columns(queries[numbers].T))  # (P, page, n)
        found[numbers, : pages * gallery.page] = response.flatten(0, 1).T[: len(numbers)]
    return found


def _dots(vectors: Vectors, rows: Tensor, queries: Tensor) -> Tensor:
    """(V, R, D) at N rows, with (N, D) → (N, R)."""
    return (vectors.take(rows).restore() * queries[:, None]).sum(-1)


def _fixed(gallery: Gallery, rows: Tensor, queries: Tensor) -> Tensor | float:
    """What token sets without a place in time add to the score, (N, 1); a trained model may have some."""
    if gallery.fixed is None:
        return 0.0
    responses = torch.split(_dots(gallery.fixed, rows, queries), [count for _, count in gallery.weights.fixed], 1)
    weighted = zip(gallery.weights.fixed, responses, strict=True)
    return torch.stack([weight * response.amax(1, keepdim=True) for (weight, _), response in weighted]).sum(0)


def _over_registers(weights: Tensor, paths: Tensor) -> Tensor:
    """(N, R), (N, P, R, page) → (N, P·page); not as a product, which would copy the paths into another order first."""
    return (weights[:, None, :, None] * paths).sum(2).flatten(1)


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
