"""Ranking: the tracks of a search become one order of videos, and moments for those on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, takewhile
from typing import Literal

import numpy as np

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.evidence import MomentEvidence
from prvr.library.search.filters import Filters
from prvr.library.search.fusing import DEPTH, fused, fused_moments
from prvr.library.search.moments import MomentOptions, find_stretches
from prvr.library.search.pair_evidence import evidence_of
from prvr.library.search.rank import RankedTrack
from prvr.library.search.results import Hit
from prvr.library.store.catalogue import Video
from prvr.library.store.snapshot import TrackView

GroupBy = Literal["video", "moment"]
CONFIDENT = 0.9  # below it a search says that nothing stands out


@dataclass(frozen=True)
class SearchOptions:
    """What is asked for besides the query."""

    limit: int = 10
    """hits on a page"""
    offset: int = 0
    """hits to leave out: where a page begins"""
    group_by: GroupBy = "video"
    """one hit per video, or one per moment"""
    filters: Filters = field(default_factory=Filters)
    min_confidence: float = 0.0
    """hits below are left out"""
    trace: bool = True
    """verify peaks with TRACE; off: the plain maximum over time"""
    moments: MomentOptions = field(default_factory=MomentOptions)
    approximate: bool = False
    """score the videos that the index of candidates names, instead of all (searches with filters always score all)"""

    def __post_init__(self) -> None:
        if self.limit < 1 or self.offset < 0:
            raise LibraryError(f"limit is at least 1 and offset at least 0, not {self.limit} and {self.offset}")
        if not 0 <= self.min_confidence <= 1:
            raise LibraryError(f"a confidence lies between 0 and 1, not {self.min_confidence}")

    @property
    def through(self) -> int:
        """Hits that must be known to show a page: up to its end, and whether there is one more."""
        return self.offset + self.limit + 1

    @property
    def narrows(self) -> bool:
        return self.approximate and not self.filters.any


class Ranking:
    """All tracks' answers to one query, fused by rank where there is more than one.

    Every video has its place by its pictures. What is said counts only where it stands out: the best of many lines
    that have nothing to do with a query is no reason to show its video.

    Tracks are asked for as many of their best as are needed, never for all.
    """

    def __init__(self, tracks: Mapping[str, RankedTrack], videos: Mapping[int, Video], options: SearchOptions):
        self.tracks, self.videos, self.options = tracks, videos, options
        self._evidence: dict[tuple[str, int], MomentEvidence] = {}
        self._only = next(iter(tracks)) if len(tracks) == 1 else None

    @cached_property
    def _voting(self) -> dict[str, list[int]]:
        """Videos of each track that count where tracks are fused, best first."""
        return {
            name: track.first(DEPTH) if name == FRAMES else _standing_out(track) for name, track in self.tracks.items()
        }

    @cached_property
    def _fused(self) -> dict[int, float]:
        return {} if self._only is not None else fused(self._voting)

    def voters(self) -> list[tuple[str, list[int]]]:
        """Videos whose places are needed before a fused ranking has an order."""
        return [] if self._only is not None else [(FRAMES, list(self._fused))]

    @cached_property
    def _leading(self) -> list[int]:
        """Videos that have votes. All others follow as their pictures place them."""
        first = self.tracks[FRAMES]
        return sorted(self._fused, key=lambda v: (-self._fused[v], _or_last(first.place(v)), v))

    def first(self, count: int) -> list[int]:
        """So many videos (or all), best first."""
        if self._only is not None:
            return self.tracks[self._only].first(count)
        seen = self.tracks[FRAMES].first(count)
        return [*self._leading, *(video for video in seen if video not in self._fused)][:count]

    @cached_property
    def total(self) -> int:
        """Videos that were searched."""
        if self._only is not None:
            return self.tracks[self._only].count
        first = self.tracks[FRAMES]
        return first.count + sum(first.place(video) is None for video in self._fused)

    def score(self, video: int) -> float:
        return self.tracks[self._only].score(video) if self._only is not None else self._fused.get(video, 0.0)

    def ranks(self, video: int) -> dict[str, int]:
        """Place of the video in each track's own ranking, from 1 on."""
        places = {name: track.place(video) for name, track in self.tracks.items()}
        return {name: place + 1 for name, place in places.items() if place is not None}

    def home(self, video: int) -> str:
        """The track in which a video stands best."""
        if self._only is not None:
            return self._only
        places = {name: order.index(video) for name, order in self._voting.items() if video in order}
        if FRAMES not in places and (place := self.tracks[FRAMES].place(video)) is not None:
            places[FRAMES] = place
        return min(places, key=lambda name: (places[name], name != FRAMES))

    def confidence(self, video: int) -> float | None:
        names = [self._only] if self._only is not None else self.ranks(video)
        found = [self.tracks[name].confidence(self.tracks[name].score(video)) for name in names]
        return max((each for each in found if each is not None), default=None)

    def _know(self, videos: Sequence[int]) -> None:
        for track in self.tracks.values():
            track.know(videos)

    def sure(self, confidence: float | None) -> bool:
        return (confidence or 0.0) >= self.options.min_confidence

    @cached_property
    def passing(self) -> list[int]:
        """Videos up to the page's end and one more, best first, without those that are less sure than was asked for."""
        needed = self.options.through
        if self.options.min_confidence == 0:
            return self.first(needed)
        if self._only is not None:  # who comes later is less sure
            return list(takewhile(lambda video: self.sure(self.confidence(video)), self.first(needed)))
        count = needed
        while True:
            some = self.first(count)
            self._know(some)
            found = [video for video in some if self.sure(self.confidence(video))]
            if len(found) >= needed or len(some) < count:
                return found[:needed]
            count *= 2

    @property
    def page(self) -> list[int]:
        """Videos of the page, where it shows videos."""
        return self.passing[self.options.offset : self.options.offset + self.options.limit]

    @cached_property
    def wanted(self) -> list[tuple[str, int]]:
        """Tracks and videos whose evidence is needed (grouped by moment: at the least)."""
        if self.options.group_by == "video":
            return [(self.home(video), video) for video in self.page]
        if self._only is not None:
            return [(self._only, video) for video in self.first(self.options.offset + self.options.limit)]
        return [(name, video) for name, order in self._voting.items() for video in order]

    def shown(self) -> list[tuple[str, list[int]]]:
        """Videos whose places and scores in each track are needed."""
        if self._only is not None:
            return []
        videos = list(self._fused)
        if self.options.group_by == "video":
            least = self.options.offset if self.options.min_confidence == 0 else 0
            videos = [*self.first(1), *self.first(self.options.through)[least:]]
        return [(name, videos) for name in self.tracks]

    def evidence(self, name: str, video: int) -> MomentEvidence:
        if (name, video) not in self._evidence:
            look([(self, name, video)])
        return self._evidence[name, video]

    def by_moment(self) -> Iterator[Hit]:
        """Moments of all videos, best first; those of several tracks are fused by rank."""
        streams = {name: self._moments_of(name) for name in self.tracks}
        if self._only is not None:
            return streams[self._only]
        first = {name: list(islice(stream, DEPTH)) for name, stream in streams.items()}
        return chain(fused_moments(first), (replace(hit, score=0.0) for hit in streams[FRAMES]))

    def _moments_of(self, name: str) -> Iterator[Hit]:
        """One track's moments, best first. A moment never scores above its video, so few videos need a look."""
        track, waiting = self.tracks[name], list[Hit]()
        walk = self._walk(name)
        following = next(walk, None)
        while following is not None:
            video, following = following, next(walk, None)
            waiting += self.hits_of(video, name, apart=True)
            waiting.sort(key=lambda hit: -hit.score)
            least = -np.inf if following is None else track.score(following)
            while waiting and waiting[0].score >= least:
                yield waiting.pop(0)

    def _walk(self, name: str) -> Iterator[int]:
        """One track's videos, best first, as far as somebody walks."""
        if name != FRAMES and self._only is None:
            yield from self._voting[name]
            return
        done, count = 0, max(DEPTH, self.options.through)
        while True:
            some = self.tracks[name].first(count)
            self._know(some[done:])
            yield from some[done:]
            if len(some) < count:
                return
            done, count = count, 2 * count

    def hits_of(self, video: int, name: str, *, apart: bool = False) -> list[Hit]:
        """A video's moments in one track as hits: the best one with the video's own score, or each with its own."""
        track, evidence = self.tracks[name], self.evidence(name, video)
        curve = evidence.routed if self.options.trace else evidence.direct
        duration = self.videos[video].duration
        stretches = find_stretches(curve, evidence.spans, duration, self.options.moments)
        ranks, in_track = self.ranks(video), track.score(video)
        hits = []
        for stretch in stretches if apart else stretches[:1]:
            own = min(float(evidence.value[stretch.peak]), in_track)
            hits.append(
                Hit(
                    video=self.videos[video],
                    start=stretch.start,
                    end=stretch.end,
                    score=own if apart else self.score(video),
                    confidence=track.confidence(own) if apart else self.confidence(video),
                    evidence=evidence,
                    moments=(stretch,) if apart else tuple(stretches),
                    track=name,
                    ranks=ranks,
                )
            )
        return hits


def look(wanted: Sequence[tuple[Ranking, str, int]]) -> None:
    """Compute the evidence of videos for rankings of the same snapshot, all in one go."""
    views: dict[int, TrackView] = {}
    groups: dict[int, list[tuple[Ranking, str, int]]] = {}
    for ranking, name, video in wanted:
        view = ranking.tracks[name].view
        views[id(view)] = view
        groups.setdefault(id(view), []).append((ranking, name, video))
    for number, some in groups.items():
        found = evidence_of(views[number], [ranking.tracks[name].asks(video) for ranking, name, video in some])
        for (ranking, name, video), evidence in zip(some, found, strict=True):
            ranking._evidence[name, video] = evidence


def _standing_out(track: RankedTrack) -> list[int]:
    """Videos that score above background sentences, best first; all of them where nothing is known of those."""
    sure = {video: track.confidence(track.score(video)) for video in track.first(DEPTH)}
    return [video for video, each in sure.items() if each is None or each >= CONFIDENT]


def _or_last(place: int | None) -> float:
    return np.inf if place is None else place
