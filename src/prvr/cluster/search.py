"""Search a library whose shards are held by actors.

    with connected("auto") as ray:
        shards = Shards(ray, start_shards(ray, library.folder, shards=4, replicas=2))
        ClusterSearcher(library, shards).search_many([SearchRequest("a red car")])

Only the scoring step happens on the actors. Everything else is ``Library.search_many``, so the answers are those of
one machine. Videos that could not be searched are reported in ``SearchResult.missing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from prvr.cluster.connection import ClusterError
from prvr.cluster.partition import assign_videos, only_videos
from prvr.cluster.replicas import Shards
from prvr.cluster.shard_actor import ShardRequest
from prvr.library import Ids, Library, Missing, SearchRequest, SearchResult, Snapshot, TrackQuery, TrackSections
from prvr.scoring import ScoringPool

_TRIES = 20  # a search starts again if the library changes, or a shard stops answering, while it runs
_KEPT = 4  # views that are remembered


class _ViewChanged(Exception):
    """A shard holds another generation of the library, or has stopped answering."""


@dataclass(frozen=True, eq=False)
class _ShardedView:
    """A snapshot of the videos whose shards answer, and where their sections are."""

    snapshot: Snapshot
    sections: dict[str, dict[int, Ids]]  # track, shard -> the shard's sections, as numbers in the snapshot's track
    shards: Shards
    missing: Missing | None

    def score(
        self, queries: Sequence[TrackQuery], sections: TrackSections, pool: ScoringPool
    ) -> list[NDArray[np.float32]]:
        """The scoring step of a search (``prvr.library.score_queries``), on the actors."""
        name = next(name for name, track in self.snapshot.tracks.items() if track is sections)
        held = self.sections[name]
        vectors = torch.stack([query.vector for query in queries]).numpy()
        weights = [query.fusion_weight for query in queries]
        requests = {
            shard: ShardRequest(name, vectors, weights, [_sections_asked(query, numbers) for query in queries])
            for shard, numbers in held.items()
        }
        replies = self.shards.ask(self.snapshot.generation, requests)
        if len(replies) < len(requests):
            raise _ViewChanged
        scores = np.empty((len(queries), len(sections)), np.float32)
        for shard, reply in replies.items():
            if reply.scores is None:
                raise _ViewChanged
            for row, (numbers, found) in enumerate(zip(requests[shard].sections, reply.scores, strict=True)):
                scores[row, held[shard] if numbers is None else held[shard][numbers]] = found
        return [of_query[query.sections.numbers] for of_query, query in zip(scores, queries, strict=True)]


def _sections_asked(query: TrackQuery, held: Ids) -> Ids | None:
    """For a search among candidates, which of the shard's sections it scores; None if all."""
    return None if query.reference is None else np.flatnonzero(np.isin(held, query.sections.numbers))


class ClusterSearcher:
    """Answers requests as ``Library.search_many`` does."""

    def __init__(self, library: Library, shards: Shards):
        self.library, self.shards = library, shards
        self._views: dict[tuple[int, frozenset[int]], _ShardedView] = {}

    def search_many(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer several requests in one pass over every shard."""
        for _ in range(_TRIES):
            view = self._view(self.library.snapshot(), self.shards.silent())
            try:
                results = self.library.search_many(requests, view.snapshot, view.score)
            except _ViewChanged:
                continue
            return results if view.missing is None else [_partial(result, view.missing) for result in results]
        raise ClusterError("the library or the cluster changes faster than a search can follow: try again in a moment")

    def _view(self, snapshot: Snapshot, silent: frozenset[int]) -> _ShardedView:
        key = (snapshot.generation, silent)
        if key not in self._views:
            for old in list(self._views)[: 1 - _KEPT]:
                del self._views[old]
            self._views[key] = _view_of(snapshot, self.shards, silent)
        return self._views[key]


def _view_of(snapshot: Snapshot, shards: Shards, silent: frozenset[int]) -> _ShardedView:
    videos = dict(enumerate(assign_videos(snapshot, len(shards))))
    lost = sum(len(videos[shard]) for shard in silent)
    missing = None
    if lost:
        missing = Missing(tuple(sorted(silent)), lost, lost / len(snapshot.videos))
        videos = {shard: of_shard for shard, of_shard in videos.items() if shard not in silent}
        snapshot = only_videos(snapshot, np.concatenate([np.zeros(0, np.int64), *videos.values()]))
    sections = {
        name: {
            shard: numbers
            for shard, of_shard in videos.items()
            if len(numbers := np.flatnonzero(np.isin(track.owners, of_shard)))
        }
        for name, track in snapshot.tracks.items()
    }
    return _ShardedView(snapshot, sections, shards, missing)


def _partial(result: SearchResult, missing: Missing) -> SearchResult:
    note = f"{missing.videos} videos ({missing.share:.0%} of the library) could not be searched; try again soon"
    message = f"{note}. {result.message}" if result.hits and result.message else note
    return replace(result, missing=missing, message=message)
