"""Evidence of aligned pairs from a gallery: query n looks at row n and at no other.

A page of results needs this, or the pages of a batch of searches. The equations are in ``prvr.trace.pair_evidence``;
this file makes their products from the stored arrays. Videos of different length are padded to the longest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.scoring.engines.common import prepare_queries
from prvr.scoring.engines.products import enough_columns, stored_products
from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors
from prvr.scoring.workspace import Workspace
from prvr.tokens import TensorRecord
from prvr.trace import PairProducts, fuse, pair_evidence

_LARGEST = 1 << 18  # numbers in the largest temporary: larger ones take longer to allocate than to fill


class AlignedPairs(NamedTuple):
    """N queries and, for each, one row of a gallery."""

    queries: Tensor  # (N, D)
    gallery: Gallery
    rows: Sequence[int]  # (N,)
    fusion_weight: float  # λ


@dataclass(frozen=True)
class GalleryEvidence(TensorRecord):
    """Curves of N pairs over the slots of their rows.

    The first slots of a row hold its tokens in order. What follows them is padding: cut each row at its own length.
    """

    direct: Tensor  # (N, M) d
    expected_support: Tensor  # (N, M) ḡ
    routed: Tensor  # (N, M) d + γρ
    value: Tensor  # (N, M) the final score that the pair would have if this token were its best
    activation: Tensor  # (N, R) π
    slots: Tensor  # (N,) slots of each row: its pages times their size


def gallery_evidence(pairs: AlignedPairs, workspace: Workspace | None = None) -> GalleryEvidence:
    """Evidence of aligned pairs, in chunks of bounded memory. A row that several queries look at is read once a chunk.

    Raises:
        ValueError: if the gallery was made without TRACE, or there are no pairs.
    """
    workspace = workspace or Workspace()
    chunks = evidence_chunks(pairs)
    return joined_chunks(chunks, [chunk_evidence(pairs, chunk, workspace) for chunk in chunks])


def evidence_chunks(pairs: AlignedPairs) -> list[list[int]]:
    """Numbers of pairs in groups of about the same length whose temporaries stay small, shortest rows first."""
    gallery = pairs.gallery
    if gallery.registers is None or gallery.routes is None:
        raise ValueError("this gallery holds base scores only: build it with TRACE to see evidence")
    if not len(pairs.rows):
        raise ValueError("no pairs were given to look at")
    return [*_chunks(pairs, gallery.registers.shape[1])]


def _chunks(pairs: AlignedPairs, registers: int) -> Iterator[list[int]]:
    gallery = pairs.gallery
    pages = gallery.first_page.diff()[torch.as_tensor(pairs.rows)].tolist()
    chunk: list[int] = []
    for number in sorted(range(len(pages)), key=lambda n: (pages[n], pairs.rows[n])):  # the newcomer is the longest
        if chunk and (len(chunk) + 1) * registers * max(gallery.width, pages[number] * gallery.page) > _LARGEST:
            yield chunk
            chunk = []
        chunk.append(number)
    if chunk:
        yield chunk


@torch.no_grad()
def chunk_evidence(pairs: AlignedPairs, numbers: Sequence[int], workspace: Workspace) -> GalleryEvidence:
    """Evidence of some of the pairs, in the order of their numbers; M is the slots of the longest."""
    gallery = pairs.gallery
    assert gallery.keys is not None
    assert gallery.registers is not None
    assert gallery.values is not None
    assert gallery.routes is not None
    queries = prepare_queries(pairs.queries[list(numbers)], gallery)
    scale = queries.scale[:, None]
    rows = torch.tensor([pairs.rows[number] for number in numbers])
    first, count = gallery.first_page[rows], gallery.first_page.diff()[rows]
    pages = first[:, None] + torch.minimum(torch.arange(int(count.max())), count[:, None] - 1)  # (N, P)
    local = _responses(gallery.local, queries.unit, gallery, rows, workspace)  # (N, M)
    own_keys = gallery.keys is gallery.local
    keys = local if own_keys else _responses(gallery.keys, queries.unit, gallery, rows, workspace)
    grounded = gallery.routes.grounding.index_select(0, pages.flatten())
    products = PairProducts(
        direct=scale * keys,
        affinity=scale * _dots(gallery.registers, rows, queries.unit),
        responses=scale * _dots(gallery.values, rows, queries.unit),
        grounded=grounded.view(*pages.shape, *grounded.shape[1:]),
        ceiling=gallery.routes.ceiling[rows].to(scale.dtype),
        gram=gallery.routes.gram[rows].to(scale.dtype),
    )
    found = pair_evidence(products, gallery.config)
    base = gallery.weights.paged * local + _fixed(gallery, rows, queries.unit)
    return GalleryEvidence(
        direct=found.direct,
        expected_support=found.expected_support,
        routed=found.routed,
        value=fuse(base, found.score, pairs.fusion_weight),
        activation=found.activation,
        slots=count * gallery.page,
    )


def joined_chunks(chunks: Sequence[Sequence[int]], parts: Sequence[GalleryEvidence]) -> GalleryEvidence:
    """The evidence of all chunks in the order of the pairs, padded with zeros."""
    slots = max(part.direct.shape[1] for part in parts)
    order = torch.tensor([number for chunk in chunks for number in chunk]).argsort()
    joined: GalleryEvidence = TensorRecord.cat([_padded(part, slots) for part in parts])
    return joined.map(lambda tensor: tensor[order])


def _padded(part: GalleryEvidence, slots: int) -> GalleryEvidence:
    curves = {name: getattr(part, name) for name in ("direct", "expected_support", "routed", "value")}
    return replace(part, **{name: F.pad(curve, (0, slots - curve.shape[1])) for name, curve in curves.items()})


def _responses(vectors: Vectors, queries: Tensor, gallery: Gallery, rows: Tensor, workspace: Workspace) -> Tensor:
    """Products of each query with the tokens of its own row, (N, M); each row is read once."""
    pages = gallery.first_page.diff()[rows]
    found = queries.new_zeros(len(rows), int(pages.max()) * gallery.page)
    of_row: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows.tolist()):
        of_row[row].append(number)
    for row, numbers in of_row.items():
        start, stop = int(gallery.first_page[row]), int(gallery.first_page[row + 1])
        columns = enough_columns(queries[numbers].T)
        response = stored_products(vectors[start:stop], columns, workspace, "pairs")  # (P, page, n)
        found[numbers, : (stop - start) * gallery.page] = response.flatten(0, 1).T[: len(numbers)]
    return found


def _dots(vectors: Vectors, rows: Tensor, queries: Tensor) -> Tensor:
    """(V, R, D) at N rows, with (N, D) → (N, R)."""
    return (vectors.take(rows).restore(queries.dtype) * queries[:, None]).sum(-1)


def _fixed(gallery: Gallery, rows: Tensor, queries: Tensor) -> Tensor | float:
    """What token sets without a place in time add to the score, (N, 1); a trained model may have some."""
    if gallery.fixed is None:
        return 0.0
    responses = torch.split(_dots(gallery.fixed, rows, queries), [count for _, count in gallery.weights.fixed], 1)
    weighted = zip(gallery.weights.fixed, responses, strict=True)
    return torch.stack([weight * response.amax(1, keepdim=True) for (weight, _), response in weighted]).sum(0)
