"""Searching a library whose shards are held by actors: they score, the library ranks as it always does.

    with connected("auto") as ray:
        shards = Shards(ray, start_shards(ray, library.folder, shards=4, replicas=2))
        ClusterSearcher(library, shards).search_many(["a red car"], SearchOptions())

A search sees a snapshot whose tracks ask the shards for their scores; everything after that (ranking, confidence,
moments, evidence) is the library's own, so that answers are those of one machine. What cannot be searched is told in
``SearchResult.missing``, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from prvr.cluster.connecting import ClusterError
from prvr.cluster.partition import assign, part_of
from prvr.cluster.shards import Shards
from prvr.library import Library, Missing, SearchOptions, SearchResult
from prvr.library.snapshot import Snapshot, TrackScores, TrackView
from prvr.media.frames import Image

_TRIES = 20  # the library may change while a search runs, or a shard fall silent; it is then begun again
_KEPT = 4  # states of library and cluster that are remembered


class _Changed(Exception):
    """Shards and this process do not hold the same state of the library, or one that answered does no more."""


@dataclass
class _RemoteView(TrackView):
    """A track whose sections are scored elsewhere."""

    ask: Callable[[Tensor], TrackScores] | None = None

    def score(self, queries: Tensor) -> TrackScores:
        assert self.ask is not None
        return self.ask(queries)


@dataclass
class ClusterSearcher:
    """Answers as ``library.search_many`` does."""

    library: Library
    shards: Shards
    _known: dict[tuple[int, frozenset[int]], tuple[Snapshot, Missing | None]] = field(default_factory=dict)

    def search_many(
        self, queries: Sequence[str | Path | Image], options: SearchOptions | Sequence[SearchOptions]
    ) -> list[SearchResult]:
        """Several queries in one pass over every shard."""
        for _ in range(_TRIES):
            snapshot, missing = self._see(self.library.snapshot(), self.shards.silent())
            try:
                found = self.library.search_many(queries, options, snapshot)
            except _Changed:
                continue
            return found if missing is None else [_told(each, missing) for each in found]
        raise ClusterError("library or cluster change faster than a search can follow: try again in a moment")

    def _see(self, whole: Snapshot, silent: frozenset[int]) -> tuple[Snapshot, Missing | None]:
        """The part of a snapshot that somebody answers for, with tracks that ask; and what is missing of it."""
        key = (whole.generation, silent)
        if key not in self._known:
            parts = assign(whole, len(self.shards))
            missing, there = None, whole
            if silent:
                videos = sum(len(parts[number]) for number in silent)
                missing = Missing(tuple(sorted(silent)), videos, videos / max(1, len(whole.videos)))
                left = [part for number, part in enumerate(parts) if number not in silent]
                there = part_of(whole, np.concatenate([np.zeros(0, np.int64), *left]))
            answering = [number for number in range(len(parts)) if number not in silent]
            tracks: dict[str, TrackView] = {}
            for name, view in there.tracks.items():
                places = {number: np.isin(view.owners, parts[number]).nonzero()[0] for number in answering}
                same = {each.name: getattr(view, each.name) for each in fields(TrackView)}
                tracks[name] = _RemoteView(**same, ask=self._asking(whole.generation, name, places))
            for old in list(self._known)[: 1 - _KEPT]:
                del self._known[old]
            self._known[key] = (replace(there, tracks=tracks), missing)
        return self._known[key]

    def _asking(self, generation: int, track: str, places: dict[int, np.ndarray]) -> Callable[[Tensor], TrackScores]:
        """``places``: which sections of the track each shard holds, in the shard's own order."""

        def ask(queries: Tensor) -> TrackScores:
            replies = self.shards.score(list(places), generation, track, queries.numpy())
            count = sum(len(some) for some in places.values())
            base, trace = (np.empty((len(queries), count), np.float32) for _ in range(2))
            for number, some in places.items():
                reply = replies.get(number)
                if reply is None or reply.base is None or reply.trace is None:
                    raise _Changed
                base[:, some], trace[:, some] = reply.base, reply.trace
            return TrackScores(torch.from_numpy(base), torch.from_numpy(trace))

        return ask


def _told(result: SearchResult, missing: Missing) -> SearchResult:
    searched = f"{missing.videos} videos ({missing.share:.0%} of the library) could not be searched; try again soon"
    message = f"{searched}. {result.message}" if result.hits and result.message else searched
    return replace(result, missing=missing, message=message)
