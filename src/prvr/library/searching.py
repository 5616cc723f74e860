"""Ranking: exact scores of all sections, the best per video, moments for those on the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, takewhile
from typing import Literal

import numpy as np

from prvr.library.catalogue import Video
from prvr.library.errors import LibraryError
from prvr.library.evidence import MomentEvidence
from prvr.library.filters import Filters
from prvr.library.fusing import DEPTH, fused, fused_moments
from prvr.library.moments import MomentOptions, find_stretches
from prvr.library.pair_evidence import evidence_of
from prvr.library.ranking import RankedTrack
from prvr.library.results import Hit, SearchResult
from prvr.library.snapshot import TrackView
from prvr.library.tracks import FRAMES

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


class Ranking:
    """All tracks' answers to one query, fused by rank where there is more than one.

    Every video has its place by its pictures. What is said counts only where it stands out: the best of many lines
    that have nothing to do with a query is no reason to show its video.
    """

    def __init__(self, tracks: Mapping[str, RankedTrack], videos: Mapping[int, Video], options: SearchOptions):
        self.tracks, self.videos, self.options = tracks, videos, options
        self._evidence: dict[tuple[str, int], MomentEvidence] = {}
        self._fused: dict[int, float] = {}
        self._only = next(iter(tracks)) if len(tracks) == 1 else None
        if self._only is not None:
            self.ids = tracks[self._only].best_first
            self.voting = {self._only: self.ids}
        else:
            self.voting = {
                name: track.best_first if name == FRAMES else _standing_out(track) for name, track in tracks.items()
            }
            self._fused, first = fused(self.voting), tracks[FRAMES]
            self.ids = sorted(self._fused, key=lambda v: (-self._fused[v], _or_last(first.place(v)), v))

    @cached_property
    def _votes(self) -> dict[str, dict[int, int]]:
        """Places of videos in each track, of those that count."""
        return {name: {video: place for place, video in enumerate(order)} for name, order in self.voting.items()}

    def score(self, video: int) -> float:
        return self.tracks[self._only].score(video) if self._only is not None else self._fused[video]

    def ranks(self, video: int) -> dict[str, int]:
        """Place of the video in each track's own ranking, from 1 on."""
        places = {name: track.place(video) for name, track in self.tracks.items()}
        return {name: place + 1 for name, place in places.items() if place is not None}

    def home(self, video: int) -> str:
        """The track in which a video stands best."""
        if self._only is not None:
            return self._only
        places = {name: order[video] for name, order in self._votes.items() if video in order}
        return min(places, key=lambda name: (places[name], name != FRAMES))

    def confidence(self, video: int) -> float | None:
        names = [self._only] if self._only is not None else self.ranks(video)
        found = [self.tracks[name].confidence(self.tracks[name].score(video)) for name in names]
        return max((each for each in found if each is not None), default=None)

    def sure(self, confidence: float | None) -> bool:
        return (confidence or 0.0) >= self.options.min_confidence

    @cached_property
    def passing(self) -> list[int]:
        """Videos that are as sure as was asked for, best first."""
        if self.options.min_confidence == 0:
            return self.ids
        if self._only is not None:  # who comes later is less sure
            return list(takewhile(lambda video: self.sure(self.confidence(video)), self.ids))
        return [video for video in self.ids if self.sure(self.confidence(video))]

    @property
    def page(self) -> list[int]:
        """Videos of the page, where it shows videos."""
        return self.passing[self.options.offset : self.options.offset + self.options.limit]

    def wanted(self) -> list[tuple[str, int]]:
        """Tracks and videos whose evidence is needed (grouped by moment: at the least)."""
        if self.options.group_by == "video":
            return [(self.home(video), video) for video in self.page]
        depth = self.options.offset + self.options.limit if self._only is not None else DEPTH
        return [(name, video) for name, order in self.voting.items() for video in order[:depth]]

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
        track, order = self.tracks[name], self.voting[name]
        waiting: list[Hit] = []
        for place, video in enumerate(order):
            waiting += self.hits_of(video, name, apart=True)
            waiting.sort(key=lambda hit: -hit.score)
            following = track.score(order[place + 1]) if place + 1 < len(order) else -np.inf
            while waiting and waiting[0].score >= following:
                yield waiting.pop(0)
        yield from waiting

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
        view = ranking.tracks[name].table.view
        views[id(view)] = view
        groups.setdefault(id(view), []).append((ranking, name, video))
    for number, some in groups.items():
        found = evidence_of(views[number], [ranking.tracks[name].asks(video) for ranking, name, video in some])
        for (ranking, name, video), evidence in zip(some, found, strict=True):
            ranking._evidence[name, video] = evidence


def _standing_out(track: RankedTrack) -> list[int]:
    """Videos that score above background sentences, best first; all of them where nothing is known of those."""
    sure = {video: track.confidence(track.score(video)) for video in track.best_first[:DEPTH]}
    return [video for video, each in sure.items() if each is None or each >= CONFIDENT]


def _or_last(place: int | None) -> float:
    return np.inf if place is None else place


Describe = Callable[[Hit], Hit]


def answer(query: str, ranking: Ranking, began: float, describe: Describe) -> SearchResult:
    """A page of hits."""
    options = ranking.options
    if not ranking.ids:
        return nothing(query, "no video of the library passes the filters", began)
    top = ranking.confidence(ranking.ids[0])
    confident = top is not None and top >= CONFIDENT
    if options.group_by == "video":
        more = len(ranking.passing) > options.offset + options.limit
        found = [ranking.hits_of(video, ranking.home(video))[0] for video in ranking.page]
    else:
        sure = (hit for hit in ranking.by_moment() if ranking.sure(hit.confidence))
        found = list(islice(sure, options.offset, options.offset + options.limit + 1))
        more = len(found) > options.limit
    hits = tuple(describe(hit) for hit in found[: options.limit])
    return SearchResult(
        query=query,
        hits=hits,
        confident=confident,
        message=_message(confident, top, bool(hits), options),
        total=len(ranking.ids),
        next_offset=options.offset + options.limit if more else None,
        seconds=time.perf_counter() - began,
    )


def _message(confident: bool, top: float | None, any_hits: bool, options: SearchOptions) -> str:
    if options.offset:
        return "" if any_hits else f"there are no results after the first {options.offset}"
    if not any_hits:
        return f"nothing reaches the confidence that was asked for ({options.min_confidence:g})"
    if top is None:
        return "confidence is unknown: the encoder understands too few of the background sentences"
    return "" if confident else "no confident match: nothing stands out; the nearest are shown"


def nothing(query: str, message: str, began: float) -> SearchResult:
    return SearchResult(query, (), False, message, 0, None, time.perf_counter() - began)
