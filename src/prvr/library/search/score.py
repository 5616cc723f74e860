"""Second step of a search: exact scores of sections. Every token that a query may find is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.errors import DamagedVectors
from prvr.library.search.query import TrackQuery
from prvr.library.store.sections import Ids, TrackSections
from prvr.scoring import ScoringPool


@dataclass(frozen=True)
class SectionScores:
    """Both parts of the score of Q queries on S sections, (Q, S) each."""

    base: Tensor
    trace: Tensor

    def fused(self, weight: float) -> Tensor:
        """base + λ · trace, (Q, S)."""
        return self.base if weight == 0 else self.base + weight * self.trace


def score_queries(
    queries: Sequence[TrackQuery], sections: TrackSections, pool: ScoringPool
) -> list[NDArray[np.float32]]:
    """The fused scores of each query on the sections that it reads, (S',) in the order of ``query.read.numbers``.

    Queries that read every section share one pass over the vectors. A query with candidates reads only those.
    """
    scores: dict[int, NDArray[np.float32]] = {}
    exact = [place for place, query in enumerate(queries) if query.reference is None]
    if exact:
        together = score_sections(torch.stack([queries[place].vector for place in exact]), sections, pool)
        for row, place in enumerate(exact):
            one = SectionScores(together.base[row], together.trace[row])
            scores[place] = one.fused(queries[place].fusion_weight).numpy()[queries[place].read.numbers]
    for place, query in enumerate(queries):
        if query.reference is not None:
            one = score_sections(query.vector[None], sections, pool, query.read.numbers)
            scores[place] = one.fused(query.fusion_weight)[0].numpy()
    return [scores[place] for place in range(len(queries))]


def score_sections(
    queries: Tensor, sections: TrackSections, pool: ScoringPool, numbers: Ids | None = None
) -> SectionScores:
    """Score queries (Q, D) against all sections of a track, or those with these numbers. Columns follow ``numbers``."""
    base, trace = (torch.empty(len(queries), len(sections if numbers is None else numbers)) for _ in range(2))
    for places, block, rows in sections.blocks(numbers):
        if 2 * len(rows) < len(block.gallery):
            (scores,) = pool.score_rows(queries, [(block.gallery, rows)])
            chosen: slice | Ids = slice(None)
        else:  # scoring rows that were not asked for is cheaper than copying the others
            (scores,) = pool.score(queries, [block.gallery])
            chosen = rows
        assert scores.trace is not None
        base[:, places], trace[:, places] = scores.base[:, chosen].float(), scores.trace[:, chosen].float()
    return _require_finite(SectionScores(base, trace), sections, numbers)


def _require_finite(scores: SectionScores, sections: TrackSections, numbers: Ids | None) -> SectionScores:
    """Refuse NaN and infinity. Queries were checked before, so a bad score comes from a damaged library."""
    finite = (scores.base.isfinite() & scores.trace.isfinite()).all(0).numpy()
    if not finite.all():
        owners = sections.owners if numbers is None else sections.owners[numbers]
        raise DamagedVectors(owners[~finite].tolist())
    return scores
