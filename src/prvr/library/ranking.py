"""Who comes first: the best section of each video, for all searches of a pass at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.confidence import Background, Spread, background_of, confidence
from prvr.library.evidence import Asked
from prvr.library.snapshot import TrackScores, TrackView


class Table:
    """Scores of the videos that a search may find, for searches that are alike but for their query."""

    def __init__(
        self, view: TrackView, scores: TrackScores, rows: Sequence[int], weight: float, allowed: set[int] | None
    ):
        self.view, self.weight = view, weight
        self.row = {number: place for place, number in enumerate(rows)}
        keep = np.arange(len(view))
        if allowed is not None:
            keep = keep[np.isin(view.owners, np.fromiter(allowed, np.int64, len(allowed)))]
        owners = view.owners[keep]
        order = np.argsort(owners, kind="stable")
        self.sections = keep[order]
        self.ids, self.starts = np.unique(owners[order], return_index=True)
        final = scores.map(lambda tensor: tensor[list(rows)]).final(weight).numpy()[:, self.sections]
        self.best = np.maximum.reduceat(final, self.starts, axis=1) if len(self.ids) else final  # (rows, videos)

    @cached_property
    def columns(self) -> dict[int, int]:
        """Of each video."""
        return {video: column for column, video in enumerate(self.ids.tolist())}

    @cached_property
    def background(self) -> Background:
        if len(self.sections) == len(self.view):
            return self.view.best_background(self.weight)
        return background_of(self.view.background[self.sections], self.view.owners[self.sections], self.weight)

    def sections_of(self, column: int) -> tuple[int, ...]:
        last = self.starts[column + 1] if column + 1 < len(self.starts) else len(self.sections)
        return tuple(self.sections[self.starts[column] : last].tolist())


@dataclass(frozen=True)
class RankedTrack:
    """One track's answer to one query: every video with its score."""

    table: Table
    query: Tensor
    row: int  # of the pass

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.table.best[self.table.row[self.row]]
        return found

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Columns, best first; equal scores: the video that was added first."""
        return np.argsort(-self.scores, kind="stable")

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.arange(len(found))
        return found

    @property
    def best_first(self) -> list[int]:
        found: list[int] = self.table.ids[self.order].tolist()
        return found

    def place(self, video: int) -> int | None:
        """In this track's own ranking, from 0 on; None where the track does not hold the video."""
        column = self.table.columns.get(video)
        return None if column is None else int(self._places[column])

    def score(self, video: int) -> float:
        return float(self.scores[self.table.columns[video]])

    @cached_property
    def spread(self) -> Spread | None:
        return Spread.of(self.scores)

    def confidence(self, score: float) -> float | None:
        return confidence(score, self.table.background, self.spread)

    def asks(self, video: int) -> Asked:
        return Asked(self.query, self.table.sections_of(self.table.columns[video]), self.table.weight)
