"""A gallery that NumPy scores: for small libraries, which take less time to score than torch takes to import.

``NumpyGallery`` reads the same arrays as ``Gallery`` and gives the same scores and the same evidence. Its equations
are in ``prvr.trace.numpy_evidence``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.scoring.few_queries import few_query_dots, has_simsimd
from prvr.trace import PagedEvidence, PagedProducts, TraceConfig, expected_paged_support, paged_evidence

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

_KINDS = {"float32": "f32", "float16": "f16", "int8": "int8"}  # NumPy's names, SimSIMD's names
_FEW_QUERIES = 32  # for more, a matrix product is faster, although NumPy is slow to turn half floats into floats
_LARGEST = 1 << 20  # numbers in the largest temporary, so that a CPU's cache still holds it


class NumpyScores(NamedTuple):
    """Base and evidence scores side by side, (Q, V) each."""

    base: Floats
    trace: Floats


class RowEvidence(NamedTuple):
    """Curves of one query over the slots of one row. The first hold the row's tokens in order, the others padding."""

    direct: Floats  # (M,) d
    expected_support: Floats  # (M,) ḡ
    routed: Floats  # (M,) d + γρ
    value: Floats  # (M,) the final score that the pair would have if this token were its best
    activation: Floats  # (R,) π


class NumpyGallery:
    """Videos with TRACE's share, prepared for scoring."""

    def __init__(
        self, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], query_projection: Floats | None = None
    ):
        """``about`` and ``arrays``: those of a ``Gallery``."""
        self.config = TraceConfig(**about["trace"])
        self.weight, self.fixed = float(about["paged"]), tuple((float(w), int(n)) for w, n in about["fixed"])
        self.arrays, self.projection = arrays, query_projection
        self.first_page = np.append(0, np.cumsum(arrays["pages"], dtype=np.int64))  # (V + 1,)
        self.page, self.width = arrays["local.values"].shape[1:]

    def __len__(self) -> int:
        return len(self.first_page) - 1

    def score(self, queries: Floats, rows: Rows | None = None) -> NumpyScores:
        """Scores of queries (Q, D) against all rows, or against some in the order given."""
        rows = np.arange(len(self)) if rows is None else rows
        base, trace = np.empty((2, len(queries), len(rows)), np.float32)
        for part in self._parts(rows, len(queries)):
            found = _Pairs(self, queries, rows[part])
            base[:, part] = found.best(found.local) * self.weight + found.fixed
            trace[:, part] = found.evidence.score(found.best(found.evidence.routed))
        return NumpyScores(base, trace)

    def evidence(self, query: Floats, row: int, fusion_weight: float) -> RowEvidence:
        """The evidence of a query (D,) in one row."""
        found = _Pairs(self, query[None], np.array([row]))
        evidence = found.evidence
        value = self.weight * found.local[0] + found.fixed[0]
        if fusion_weight:
            value = value + fusion_weight * evidence.score(evidence.routed[0])
        return RowEvidence(
            direct=found.products.direct.ravel(),
            expected_support=expected_paged_support(found.products, evidence.activation, self.config).ravel(),
            routed=evidence.routed.ravel(),
            value=value.ravel(),
            activation=evidence.activation.ravel(),
        )

    def tokens(self, row: int) -> Floats:
        """(M, D): the local tokens of a row, and then padding."""
        pages = slice(self.first_page[row], self.first_page[row + 1])
        return self.floats("local", pages).reshape(-1, self.width)

    def floats(self, name: str, rows: slice | Rows) -> Floats:
        """Stored vectors as they are multiplied."""
        values, scale = self.arrays[f"{name}.values"][rows], self.arrays.get(f"{name}.scale")
        floats: Floats = values.astype(np.float32)
        return floats if scale is None else floats * scale[rows][..., None]

    def _parts(self, rows: Rows, queries: int) -> Iterator[slice]:
        """Runs of rows whose temporaries stay small; a longer row is a run by itself."""
        pages = np.diff(self.first_page)[rows]
        widest = queries if queries <= _FEW_QUERIES else max(queries, self.width)
        group = (pages.cumsum() - pages) // max(1, _LARGEST // (widest * self.page))
        edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
        return (slice(*edge) for edge in pairwise(edges) if len(rows))


class _Pairs:
    """All pairs of some queries and some rows of a gallery."""

    def __init__(self, gallery: NumpyGallery, queries: Floats, rows: Rows):
        self.gallery, self.rows = gallery, _run(rows)
        length = np.linalg.norm(queries, axis=1, keepdims=True)
        self.queries = (queries / np.maximum(length, 1e-12)).astype(np.float32)
        counts = np.diff(gallery.first_page)[rows]
        self.starts = np.cumsum(counts) - counts  # (V,) first page of each row among the pages that are read
        owner = np.repeat(np.arange(len(rows)), counts)
        self.pages = _run(np.arange(len(owner)) + (gallery.first_page[rows] - self.starts)[owner])
        self.local = self._products("local", self.pages)
        arrays, scale = gallery.arrays, self._scale()
        self.products = PagedProducts(
            direct=scale * (self._products("keys", self.pages) if "keys.values" in arrays else self.local),
            affinity=scale * self._products("registers", self.rows),
            responses=scale * self._products("values", self.rows),
            grounded=arrays["routes.grounding"][self.pages],
            ceiling=arrays["routes.ceiling"][self.rows],
            gram=arrays["routes.gram"][self.rows],
            owner=owner,
        )
        self.evidence: PagedEvidence = paged_evidence(self.products, gallery.config)

    def best(self, curves: Floats) -> Floats:
        """The largest value of each row, (Q, P, page) → (Q, V)."""
        of_pages = curves.max(-1)
        return of_pages if len(self.starts) == of_pages.shape[1] else np.maximum.reduceat(of_pages, self.starts, 1)

    @property
    def fixed(self) -> Floats:
        """What token sets without a place in time add to the score, (Q, V); a trained model may have some."""
        total = np.zeros((len(self.queries), len(self.starts)), np.float32)
        if self.gallery.fixed:
            responses = self._products("fixed", self.rows)
            edges = np.cumsum([count for _, count in self.gallery.fixed])[:-1]
            for (weight, _), part in zip(self.gallery.fixed, np.split(responses, edges, -1), strict=True):
                total += weight * part.max(-1)
        return total

    def _scale(self) -> Floats:
        """1/‖W q‖ for folded vectors, (Q, 1, 1)."""
        if self.gallery.projection is None:
            return np.ones((1, 1, 1), np.float32)
        length = np.linalg.norm(self.queries @ self.gallery.projection.T, axis=1)
        return (1 / np.maximum(length, 1e-12))[:, None, None].astype(np.float32)

    def _products(self, name: str, rows: slice | Rows) -> Floats:
        """Queries with stored vectors (N, K, D) → (Q, N, K)."""
        values, scale = self.gallery.arrays[f"{name}.values"], self.gallery.arrays.get(f"{name}.scale")
        kind = _KINDS.get(values.dtype.name)
        if len(self.queries) > _FEW_QUERIES or kind is None or not has_simsimd():
            floats = self.gallery.floats(name, rows)
            return (self.queries @ floats.reshape(-1, floats.shape[-1]).T).reshape(-1, *floats.shape[:-1])
        stored = values[rows]
        columns, lengths = _as_stored(self.queries, values.dtype)
        found = few_query_dots(stored.reshape(-1, stored.shape[-1]), columns, kind, os.cpu_count() or 1)
        dots = found.reshape(-1, *stored.shape[:-1])
        return dots if scale is None else dots * scale[rows] * lengths[:, None, None]


def _as_stored(queries: Floats, dtype: np.dtype[Any]) -> tuple[NDArray[Any], Floats]:
    """Queries in the number type of stored vectors, and what a row of eight-bit integers is multiplied by."""
    if dtype != np.int8:
        return queries.astype(dtype), np.ones(len(queries), np.float32)
    largest = np.abs(queries).max(1)
    scale = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    return np.rint(queries / scale[:, None]).astype(np.int8), scale


def _run(numbers: Rows) -> slice | Rows:
    """Consecutive numbers as a slice, which copies nothing."""
    first, last = int(numbers[0]), int(numbers[-1])
    consecutive = last - first + 1 == len(numbers) and bool((np.diff(numbers) == 1).all())
    return slice(first, last + 1) if consecutive else numbers
