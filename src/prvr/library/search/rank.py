"""Who comes first in a track: the best section of each video, for all searches of a pass at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.search.confidence import Heard, Moments, Spread, confidence
from prvr.library.search.evidence import Asked
from prvr.library.store.sections import Ids, Sections
from prvr.library.store.snapshot import TrackView


class RankedTrack(ABC):
    """One track's answer to one query. Every video has its place and its score, but they may have to be asked for."""

    def __init__(self, view: TrackView, query: Tensor, weight: float):
        self.view, self.query, self.weight = view, query, weight

    @property
    @abstractmethod
    def count(self) -> int:
        """Videos that the search may find here."""

    @abstractmethod
    def first(self, count: int) -> list[int]:
        """So many videos (or all), best first; equal scores: the video that was added first."""

    @abstractmethod
    def place(self, video: int) -> int | None:
        """In this track's own ranking, from 0 on; None where the track does not hold the video."""

    @abstractmethod
    def score(self, video: int) -> float:
        """Of a video that has a place."""

    @abstractmethod
    def know(self, videos: Sequence[int]) -> None:
        """Places and scores of these will be asked for."""

    @property
    @abstractmethod
    def heard(self) -> Heard:
        """What background sentences score on the same videos."""

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """Of this query's scores on videos."""

    @cached_property
    def spread(self) -> Spread | None:
        return Spread.of(self.moments)

    def confidence(self, score: float) -> float | None:
        return confidence(score, self.heard.background, self.spread)

    def asks(self, video: int) -> Asked:
        return Asked(self.query, self.view.by_video.of_video(video), self.weight)


@dataclass(frozen=True, eq=False)
class Table:
    """Scores of the videos that a search may find, for searches that are alike but for their query."""

    view: TrackView
    sections: Sections
    best: NDArray[np.float32]  # (rows, V)
    weight: float
    drawn: Ids | None = None  # videos whose scores show how a query scores anywhere; None: all

    @staticmethod
    def of(view: TrackView, sections: Sections, scores: Tensor, weight: float, drawn: Ids | None = None) -> Table:
        """From the scores of these sections, (rows, S)."""
        return Table(view, sections, sections.best(scores.numpy()), weight, drawn)

    @cached_property
    def heard(self) -> Heard:
        if self.drawn is not None or len(self.sections) == len(self.view):
            return self.view.heard(self.weight)
        return self.view.heard_on(self.sections, self.weight)

    @cached_property
    def drawn_columns(self) -> Ids | slice:
        return slice(None) if self.drawn is None else np.flatnonzero(np.isin(self.sections.ids, self.drawn))


class TableTrack(RankedTrack):
    """Every score is here."""

    def __init__(self, table: Table, row: int, query: Tensor):
        """``row``: of the table."""
        super().__init__(table.view, query, table.weight)
        self.table = table
        self.scores: NDArray[np.float32] = table.best[row]  # (V,)

    @property
    def count(self) -> int:
        return len(self.scores)

    def first(self, count: int) -> list[int]:
        found: list[int] = self.table.sections.ids[self.best(count)].tolist()
        return found

    def best(self, count: int) -> Ids:
        """Columns of the best."""
        if count < len(self.scores) // 8:  # sorting all of them would cost more
            least = np.partition(self.scores, len(self.scores) - count)[len(self.scores) - count]
            some = np.flatnonzero(self.scores >= least)
            return some[np.argsort(-self.scores[some], kind="stable")][:count]
        return self.order[:count]

    @cached_property
    def order(self) -> Ids:
        """Columns, best first."""
        return np.argsort(-self.scores, kind="stable")

    def place(self, video: int) -> int | None:
        column = self.table.sections.column(video)
        return None if column is None else self.better(video, float(self.scores[column]))

    def better(self, video: int, score: float) -> int:
        """How many of the videos here come before one with such a score."""
        equal = self.table.sections.ids[self.scores == np.float32(score)]
        return int((self.scores > np.float32(score)).sum() + (equal < video).sum())

    def score(self, video: int) -> float:
        column = self.table.sections.column(video)
        assert column is not None
        return float(self.scores[column])

    def know(self, videos: Sequence[int]) -> None:
        """They are known."""

    @property
    def heard(self) -> Heard:
        return self.table.heard

    @cached_property
    def moments(self) -> Moments:
        return Moments.of(self.scores[self.table.drawn_columns])


class Ranked:
    """What a pass found: for each search its tracks."""

    def __init__(self, rows: Sequence[dict[str, RankedTrack]]):
        self.rows = rows

    def know(self, needed: Sequence[tuple[int, str, Sequence[int]]]) -> None:
        """As ``RankedTrack.know``, for many at once: (search, track, videos)."""
