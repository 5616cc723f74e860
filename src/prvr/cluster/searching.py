"""Searching a library whose shards are held by actors: they score and tell their best, the library ranks.

    with connected("auto") as ray:
        shards = Shards(ray, start_shards(ray, library.folder, shards=4, replicas=2))
        ClusterSearcher(library, shards).search_many(["a red car"], SearchOptions())

What is not a matter of all videos (moments, evidence, messages) is the library's own, so that answers are those of one
machine. What cannot be searched is told in ``SearchResult.missing``, never left out in silence.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prvr.cluster.connecting import ClusterError
from prvr.cluster.gathering import Gathered, GatheredTrack
from prvr.cluster.hedging import Shards
from prvr.cluster.partition import assign
from prvr.cluster.parts import Best, HeardOf, Need
from prvr.library import Library, Missing, SearchOptions, SearchResult
from prvr.library.search.asking import Question
from prvr.library.search.confidence import Heard
from prvr.library.search.filters import Filters
from prvr.library.store.snapshot import Snapshot
from prvr.media.frames import Image

_TRIES = 20  # the library may change while a search runs, or a shard fall silent; it is then begun again
_KEPT = 4  # states of library and cluster that are remembered
_HEARD = 64  # filters whose background is remembered


class _Changed(Exception):
    """Shards and this process do not hold the same state of the library, or one that answered does no more."""


@dataclass
class _There:
    """Ranks one state of a library by asking the shards that answer."""

    snapshot: Snapshot
    shards: Shards
    answering: list[int]
    missing: Missing | None
    heard: dict[HeardOf, Heard] = field(default_factory=dict)

    def rank(self, question: Question) -> Gathered:
        key = uuid.uuid4().hex

        def ask(needs: Sequence[Need]) -> list[list[Any]]:
            return self._ask(key, question, needs)

        best = [
            Best(row, name, wanted.depth)
            for row, wanted in enumerate(question.wanted)
            for name in self.snapshot.tracks
            if question.asks(row, name)
        ]
        heard = {(each.row, each.track): _heard(question, each) for each in best}
        fresh = [each for each in dict.fromkeys(heard.values()) if each not in self.heard]
        told = ask([*best, *fresh])
        backgrounds = zip(fresh, told[len(best) :], strict=True)
        known = self.heard | {each: Heard.joined(parts) for each, parts in backgrounds if parts}
        self.heard = dict([*known.items()][-_HEARD:])
        rows: list[dict[str, GatheredTrack]] = [{} for _ in question.wanted]
        for each, parts in zip(best, told[: len(best)], strict=True):
            if parts:
                background = known[heard[each.row, each.track]]
                view = self.snapshot.tracks[each.track]
                rows[each.row][each.track] = GatheredTrack(view, question, each, parts, background, ask)
        return Gathered(rows, ask)

    def _ask(self, key: str, question: Question, needs: Sequence[Need]) -> list[list[Any]]:
        """Of each need, what the shards say that hold something of its track."""
        if not needs:
            return []
        replies = self.shards.ask(self.answering, self.snapshot.generation, key, question, needs)
        if len(replies) < len(self.answering) or any(reply.answers is None for reply in replies.values()):
            raise _Changed
        answers = [replies[number].answers or [] for number in self.answering]
        return [[some[place] for some in answers if some[place] is not None] for place in range(len(needs))]


def _heard(question: Question, best: Best) -> HeardOf:
    """Confidence of candidates is that of the whole library."""
    wanted = question.wanted[best.row]
    narrow = best.track in wanted.candidates
    return HeardOf(best.track, wanted.trace, Filters() if narrow else wanted.filters)


@dataclass
class ClusterSearcher:
    """Answers as ``library.search_many`` does."""

    library: Library
    shards: Shards
    _known: dict[tuple[int, frozenset[int]], _There] = field(default_factory=dict)

    def search_many(
        self, queries: Sequence[str | Path | Image], options: SearchOptions | Sequence[SearchOptions]
    ) -> list[SearchResult]:
        """Several queries in one pass over every shard."""
        for _ in range(_TRIES):
            there = self._see(self.library.snapshot(), self.shards.silent())
            try:
                found = self.library.search_many(queries, options, there)
            except _Changed:
                continue
            return found if there.missing is None else [_told(each, there.missing) for each in found]
        raise ClusterError("library or cluster change faster than a search can follow: try again in a moment")

    def _see(self, whole: Snapshot, silent: frozenset[int]) -> _There:
        """A snapshot, who is asked about it, and what is missing of it."""
        key = (whole.generation, silent)
        if key not in self._known:
            missing = None
            if silent:
                parts = assign(whole, len(self.shards))
                videos = sum(len(parts[number]) for number in silent)
                missing = Missing(tuple(sorted(silent)), videos, videos / max(1, len(whole.videos)))
            for old in list(self._known)[: 1 - _KEPT]:
                del self._known[old]
            answering = [number for number in range(len(self.shards)) if number not in silent]
            self._known[key] = _There(whole, self.shards, answering, missing)
        return self._known[key]


def _told(result: SearchResult, missing: Missing) -> SearchResult:
    searched = f"{missing.videos} videos ({missing.share:.0%} of the library) could not be searched; try again soon"
    message = f"{searched}. {result.message}" if result.hits and result.message else searched
    return replace(result, missing=missing, message=message)
