"""Second step of a search: exact scores of sections. Every token that a query may find is read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prvr.library.errors import DamagedVectors
from prvr.library.search.query import TrackQuery
from prvr.library.store.background import Floats
from prvr.library.store.blocks import BlockRows, Ids, SectionBlock
from prvr.library.store.sections import TrackSections
from prvr.scoring import NumpyScores, RowEvidence

if TYPE_CHECKING:
    from prvr.scoring import ScoringPool

# Tokens of a track. In a larger one torch is faster, and in a much larger one it is worth its import.
MOST_FOR_NUMPY, MOST_WITHOUT_TORCH = 1 << 16, 1 << 19
_BATCH_BYTES = 1 << 28


class BlockPairs(NamedTuple):
    """N queries and, for each, one row of a block."""

    queries: Floats  # (N, D)
    block: SectionBlock
    rows: Sequence[int]  # (N,)
    fusion_weight: float  # λ


class SectionScorer:
    """Scores sections and computes their evidence: with NumPy in a small track, otherwise with torch.

    Importing torch takes longer than a search of a small library, which therefore does without. Both give the same
    numbers, up to rounding.
    """

    def uses_torch(self, sections: TrackSections) -> bool:
        """The rule that chooses."""
        return int(sections.tokens.sum()) > (MOST_FOR_NUMPY if "torch" in sys.modules else MOST_WITHOUT_TORCH)

    def prepare(self, tracks: Iterable[TrackSections]) -> None:
        """For a process that stays open: import torch now, if it is faster in one of these tracks."""
        if any(int(sections.tokens.sum()) > MOST_FOR_NUMPY for sections in tracks):
            _ = self.pool

    @cached_property
    def pool(self) -> ScoringPool:
        """Torch's threads."""
        from prvr.scoring import ScoringPool

        return ScoringPool()

    def score(self, queries: Floats, sections: TrackSections, parts: Sequence[BlockRows]) -> list[NumpyScores]:
        """Scores (Q, n) of queries (Q, D) on the rows of each part."""
        # If most rows of a block are asked for, scoring the others too is cheaper than copying some.
        few = [2 * len(rows) < len(block) for _, block, rows in parts]
        if not self.uses_torch(sections):
            with np.errstate(all="ignore"):  # rows that are left out may be damaged
                found = [
                    block.numpy_gallery.score(queries, rows if chosen else None)
                    for (_, block, rows), chosen in zip(parts, few, strict=True)
                ]
        else:
            found = [*self._score_with_torch(queries, parts, few)]
        return [
            scores if chosen else NumpyScores(scores.base[:, part.rows], scores.trace[:, part.rows])
            for scores, part, chosen in zip(found, parts, few, strict=True)
        ]

    def _score_with_torch(
        self, queries: Floats, parts: Sequence[BlockRows], few: Sequence[bool]
    ) -> Iterator[NumpyScores]:
        import torch

        asked = torch.from_numpy(queries)
        chosen = [(part.block.gallery, part.rows) for part, some in zip(parts, few, strict=True) if some]
        whole = [part.block.gallery for part, some in zip(parts, few, strict=True) if not some]
        of_chosen = iter(self.pool.score_rows(asked, chosen) if chosen else ())
        of_whole = iter(self.pool.score(asked, whole) if whole else ())
        for some in few:
            scores = next(of_chosen if some else of_whole)
            assert scores.trace is not None
            yield NumpyScores(scores.base.numpy(), scores.trace.numpy())

    def evidence(self, sections: TrackSections, groups: Sequence[BlockPairs]) -> list[list[RowEvidence]]:
        """For each group the evidence of its pairs."""
        if not self.uses_torch(sections):
            return [
                [
                    group.block.numpy_gallery.evidence(query, row, group.fusion_weight)
                    for query, row in zip(group.queries, group.rows, strict=True)
                ]
                for group in groups
            ]
        import torch

        from prvr.scoring import AlignedPairs

        found = self.pool.evidence(
            [
                AlignedPairs(torch.from_numpy(group.queries), group.block.gallery, group.rows, group.fusion_weight)
                for group in groups
            ]
        )
        columns = [[getattr(curves, name).numpy() for name in RowEvidence._fields] for curves in found]
        return [[RowEvidence(*row) for row in zip(*of_group, strict=True)] for of_group in columns]


@dataclass(frozen=True)
class SectionScores:
    """Both parts of the score of Q queries on S sections, (Q, S) each."""

    base: Floats
    trace: Floats

    def fused(self, weight: float) -> Floats:
        """base + λ · trace, (Q, S)."""
        return self.base if weight == 0 else self.base + np.float32(weight) * self.trace


def score_queries(queries: Sequence[TrackQuery], sections: TrackSections, scorer: SectionScorer) -> list[Floats]:
    """The fused scores of each query on the sections that it reads, (S',) in the order of ``query.read.numbers``.

    Queries that read every section share one pass over the vectors. A query with candidates reads only those.
    """
    scores: dict[int, Floats] = {}
    exact = [place for place, query in enumerate(queries) if query.reference is None]
    if exact:
        together = score_sections(np.stack([queries[place].vector for place in exact]), sections, scorer)
        for row, place in enumerate(exact):
            one = SectionScores(together.base[row], together.trace[row])
            scores[place] = one.fused(queries[place].fusion_weight)[queries[place].read.numbers]
    for place, query in enumerate(queries):
        if query.reference is not None:
            one = score_sections(query.vector[None], sections, scorer, query.read.numbers)
            scores[place] = one.fused(query.fusion_weight)[0]
    return [scores[place] for place in range(len(queries))]


def score_sections(
    queries: Floats, sections: TrackSections, scorer: SectionScorer, numbers: Ids | None = None
) -> SectionScores:
    """Score queries (Q, D) against all sections of a track, or those with these numbers. Columns follow ``numbers``."""
    base, trace = np.empty((2, len(queries), len(sections if numbers is None else numbers)), np.float32)
    for parts in _batches(sections.blocks(numbers)):
        for part, scores in zip(parts, scorer.score(queries, sections, parts), strict=True):
            base[:, part.places], trace[:, part.places] = scores
    return _require_finite(SectionScores(base, trace), sections, numbers)


def _batches(parts: Iterable[BlockRows]) -> Iterator[list[BlockRows]]:
    """Parts that are scored together: as few batches as fit into memory, because every batch waits for its slowest."""
    batch: list[BlockRows] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += 0 if part.block.stays else part.block.nbytes
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _require_finite(scores: SectionScores, sections: TrackSections, numbers: Ids | None) -> SectionScores:
    """Refuse NaN and infinity. Queries were checked before, so a bad score comes from a damaged library."""
    finite = (np.isfinite(scores.base) & np.isfinite(scores.trace)).all(0)
    if not finite.all():
        owners = sections.owners if numbers is None else sections.owners[numbers]
        raise DamagedVectors(owners[~finite].tolist())
    return scores
