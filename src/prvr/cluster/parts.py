"""What a shard can be asked: never for all its scores, only for its best and for sums over the rest.

Each need is answered by what one part of a library holds (``look``), and the answers of all parts are put together
where they were asked for (``gathering``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prvr.library.search.asking import Question, passing, rank_here
from prvr.library.search.confidence import Heard, Moments
from prvr.library.search.filters import Filters
from prvr.library.search.rank import TableTrack
from prvr.library.store.sections import Ids
from prvr.library.store.snapshot import Snapshot

Scores = NDArray[np.float32]


class Part:
    """A part of a library, and what one question found in it."""

    def __init__(self, snapshot: Snapshot, question: Question):
        self.snapshot = snapshot
        self.rows = rank_here(snapshot, question)

    def track(self, row: int, name: str) -> TableTrack | None:
        return self.rows[row].get(name)


class Need(Protocol):
    """Something to be known of a part; None where it holds nothing of the track."""

    def look(self, part: Part) -> Any: ...


@dataclass(frozen=True)
class Few:
    """The best of a part, and of all its videos how many there are and how the query scores on them."""

    ids: Ids
    scores: Scores
    count: int
    moments: Moments


@dataclass(frozen=True)
class Best:
    """The first ``depth`` videos of a search in a track."""

    row: int
    track: str
    depth: int

    def look(self, part: Part) -> Few | None:
        track = part.track(self.row, self.track)
        if track is None:
            return None
        columns = track.best(self.depth)
        return Few(track.table.sections.ids[columns], track.scores[columns], track.count, track.moments)


@dataclass(frozen=True)
class ScoresOf:
    """What certain videos score: those that the part holds, in order."""

    row: int
    track: str
    ids: Ids  # in order

    def look(self, part: Part) -> tuple[Ids, Scores] | None:
        track = part.track(self.row, self.track)
        if track is None:
            return None
        held = self.ids[np.isin(self.ids, track.table.sections.ids)]
        return held, track.scores[np.searchsorted(track.table.sections.ids, held)]


@dataclass(frozen=True)
class PlacesOf:
    """How many videos of the part come before videos with these scores."""

    row: int
    track: str
    ids: Ids
    scores: Scores

    def look(self, part: Part) -> Ids | None:
        track = part.track(self.row, self.track)
        if track is None:
            return None
        pairs = zip(self.ids.tolist(), self.scores.tolist(), strict=True)
        return np.array([track.better(video, score) for video, score in pairs], np.int64)


@dataclass(frozen=True)
class HeardOf:
    """What background sentences score on the videos that pass a filter."""

    track: str
    trace: bool = True
    filters: Filters = field(default_factory=Filters)

    def look(self, part: Part) -> Heard | None:
        view = part.snapshot.tracks.get(self.track)
        if view is None:
            return None
        weight = view.fusion_weight if self.trace else 0.0
        if not self.filters.any:
            return view.heard(weight)
        return view.heard_on(view.by_video.only(passing(self.filters, part.snapshot)), weight)


@dataclass(frozen=True)
class Reply:
    """To each need an answer; None where the shard holds another generation of the library."""

    generation: int
    answers: Sequence[Any] | None = None

    @property
    def bytes(self) -> int:
        """Of the numbers in it: what travels, but for names and lengths."""
        return _bytes(self.answers)


def _bytes(told: Any) -> int:
    if isinstance(told, np.ndarray | np.generic):
        return told.nbytes
    if is_dataclass(told):
        return sum(_bytes(getattr(told, each.name)) for each in fields(told))
    return sum(map(_bytes, told)) if isinstance(told, Sequence) else 8 * (told is not None)
