"""A library at one moment, mapped into memory: what a search looks at, whatever is added or removed meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.errors import LibraryError
from prvr.library.search.confidence import Heard
from prvr.library.search.passes import score_galleries, score_rows
from prvr.library.store.arrays import ShardMissing, map_shard, read_shards
from prvr.library.store.catalogue import Catalogue, Video, generation, read_videos
from prvr.library.store.sections import Ids, Sections
from prvr.scoring import Gallery
from prvr.tokens import TensorRecord

_TRIES = 20


@dataclass(frozen=True)
class Mapped:
    """A shard in memory."""

    gallery: Gallery
    arrays: dict[str, Tensor]
    rows: NDArray[np.int64]  # the living ones
    id: int = 0  # in the catalogue

    @cached_property
    def spans(self) -> NDArray[np.float32]:
        """(tokens, 2): seconds of every token, page after page."""
        return self.arrays["spans"].reshape(-1, 2).numpy()

    @cached_property
    def pages(self) -> list[int]:
        """Of each row."""
        return [int(count) for count in self.gallery.first_page.diff()]


@dataclass(frozen=True)
class TrackScores(TensorRecord):
    """Both parts of the score of every living section, (Q, S)."""

    base: Tensor
    trace: Tensor

    def final(self, weight: float) -> Tensor:
        return self.base if weight == 0 else self.base + weight * self.trace

    def required(self) -> TrackScores:
        """Themselves, where they are numbers: queries were looked at before, so what is not comes from the library."""
        if not (self.base.isfinite().all() and self.trace.isfinite().all()):
            raise LibraryError(
                "some of the library's vectors are no numbers: `prvr library verify` names the damaged files"
            )
        return self


@dataclass
class TrackView:
    """All living sections of a track, shard after shard."""

    shards: list[Mapped] = field(default_factory=list)
    videos: list[int] = field(default_factory=list)  # of each section
    places: list[tuple[int, int, int]] = field(default_factory=list)  # number of the shard here, row, tokens
    _known: dict[float, Heard] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.videos)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        return np.array(self.videos, np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of each shard's first section here, and that of all sections."""
        return np.cumsum([0, *(len(shard.rows) for shard in self.shards)])

    @property
    def fusion_weight(self) -> float:
        """TRACE's share λ in the score."""
        return self.shards[0].gallery.config.fusion_weight

    def score(self, queries: Tensor) -> TrackScores:
        """Score (Q, D) queries against every section: every stored token is looked at."""
        base, trace = [], []
        for shard, found in zip(
            self.shards, score_galleries(queries, [shard.gallery for shard in self.shards]), strict=True
        ):
            assert found.trace is not None
            base.append(found.base[:, shard.rows])
            trace.append(found.trace[:, shard.rows])
        return TrackScores(torch.cat(base, 1), torch.cat(trace, 1)).required()

    def score_some(self, queries: Tensor, numbers: Ids) -> TrackScores:
        """Score (Q, D) queries against some sections, which are read alone."""
        pieces: list[tuple[Gallery, Ids]] = []
        places: list[Ids] = []
        of_shard = np.searchsorted(self.starts, numbers, side="right") - 1
        for place in np.unique(of_shard).tolist():
            here = np.flatnonzero(of_shard == place)
            shard = self.shards[place]
            places.append(here)
            pieces.append((shard.gallery, shard.rows[numbers[here] - self.starts[place]]))
        base, trace = (torch.empty(len(queries), len(numbers)) for _ in range(2))
        for here, found in zip(places, score_rows(queries, pieces), strict=True):
            assert found.trace is not None
            base[:, here], trace[:, here] = found.base.float(), found.trace.float()
        return TrackScores(base, trace).required()

    @cached_property
    def by_video(self) -> Sections:
        """All sections, video after video."""
        return Sections.of(self.owners)

    @cached_property
    def background(self) -> NDArray[np.float32]:
        """(S, B, 2): base and evidence scores of the background sentences."""
        return np.concatenate([shard.arrays["background"].numpy()[shard.rows] for shard in self.shards])

    def heard(self, weight: float) -> Heard:
        """What background sentences score on all videos; the same for every query without filters."""
        if weight not in self._known:
            self._known[weight] = Heard.of(self.background, self.owners, weight)
        return self._known[weight]

    def heard_on(self, sections: Sections, weight: float) -> Heard:
        """The same on some videos."""
        some = Heard.of(self.background[sections.numbers], self.owners[sections.numbers], weight)
        return replace(some, understood=self.heard(weight).understood)


@dataclass(frozen=True)
class Snapshot:
    """Videos and tracks of one generation."""

    generation: int
    videos: dict[int, Video]
    tracks: dict[str, TrackView]


_View = TypeVar("_View", bound=TrackView)


def cut(view: TrackView, sections: NDArray[np.int64], into: _View) -> _View:
    """Some sections of a track, in order, put into an empty view. Neighbours stay mapped where they lie; others are
    copied together."""
    for place, shard in enumerate(view.shards):
        here = sections[(sections >= view.starts[place]) & (sections < view.starts[place + 1])]
        if not len(here):
            continue
        rows = np.array([view.places[number][1] for number in here], np.int64)
        neighbours = int(rows[-1]) + 1 - int(rows[0]) == len(rows)
        first = shard.gallery.first_page.numpy()
        if neighbours:
            chosen: slice | NDArray[np.int64] = slice(int(rows[0]), int(rows[-1]) + 1)
            pages: slice | NDArray[np.int64] = slice(int(first[rows[0]]), int(first[rows[-1] + 1]))
            gallery = shard.gallery[slice(int(rows[0]), int(rows[-1]) + 1)]
        else:
            chosen, pages = rows, np.concatenate([np.arange(first[row], first[row + 1]) for row in rows])
            gallery = shard.gallery.take(rows.tolist())
        arrays = {"spans": shard.arrays["spans"][pages], "background": shard.arrays["background"][chosen]}
        into.places += [(len(into.shards), row, view.places[number][2]) for row, number in enumerate(here)]
        into.videos += [view.videos[number] for number in here]
        into.shards.append(Mapped(gallery, arrays, np.arange(len(rows)), shard.id))
    return into


Projection = Callable[[str], Tensor | None]  # TRACE's query projection of a track; None where there is none


def take_snapshot(catalogue: Catalogue, folder: Path, before: Snapshot | None, projection: Projection) -> Snapshot:
    """The library as it is now; ``before`` itself where nothing has changed."""
    for _ in range(_TRIES):
        try:
            with catalogue.reading() as db:
                now = generation(db)
                if before is not None and before.generation == now:
                    return before
                return _mapped(db, folder, now, projection)
        except ShardMissing:  # somebody deletes files without the lock; the next look may be luckier
            continue
    raise ShardMissing(str(folder))


def _mapped(db: sqlite3.Connection, folder: Path, now: int, projection: Projection) -> Snapshot:
    videos = {video.id: video for video in read_videos(db, "state = 'ok'")}
    tracks: dict[str, TrackView] = {}
    for shard in read_shards(db):
        sections = db.execute(
            "SELECT video, row, tokens FROM sections WHERE shard = ? ORDER BY row", (shard.id,)
        ).fetchall()
        if not sections:
            continue
        view = tracks.setdefault(shard.track, TrackView())
        arrays = map_shard(folder, shard)
        gallery = Gallery.of_arrays(shard.about["gallery"], arrays, query_projection=projection(shard.track))
        view.places += [(len(view.shards), row, tokens) for _, row, tokens in sections]
        view.shards.append(Mapped(gallery, arrays, np.array([row for _, row, _ in sections], np.int64), shard.id))
        view.videos += [video for video, _, _ in sections]
    return Snapshot(now, videos, tracks)
