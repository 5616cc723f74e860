"""Ranking: exact scores of all sections, the best per video, moments for those on the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from prvr.library.catalogue import Video
from prvr.library.confidence import Background, Spread, background_of, confidence
from prvr.library.errors import LibraryError
from prvr.library.evidence import MomentEvidence, video_evidence
from prvr.library.filters import Filters
from prvr.library.fusing import DEPTH, fused, fused_moments
from prvr.library.moments import MomentOptions, find_stretches
from prvr.library.results import Hit, SearchResult
from prvr.library.snapshot import Snapshot, TrackScores, TrackView
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

    def __post_init__(self) -> None:
        if self.limit < 1 or self.offset < 0:
            raise LibraryError(f"limit is at least 1 and offset at least 0, not {self.limit} and {self.offset}")
        if not 0 <= self.min_confidence <= 1:
            raise LibraryError(f"a confidence lies between 0 and 1, not {self.min_confidence}")


class RankedTrack:
    """One track's answer to one query: every video with its score, best first."""

    def __init__(
        self, view: TrackView, query: Tensor, scores: TrackScores, row: int, weight: float, allowed: set[int] | None
    ):
        self.view, self.query, self.weight = view, query, weight
        keep = np.arange(len(view))
        if allowed is not None:
            keep = keep[np.isin(view.owners, np.fromiter(allowed, np.int64, len(allowed)))]
        self.sections = keep
        final = scores.final(weight)[row].numpy()[keep]
        owners = view.owners[keep]
        self.ids, inverse = np.unique(owners, return_inverse=True)
        best = np.full(len(self.ids), -np.inf, np.float32)
        np.maximum.at(best, inverse, final)
        self.scores = best
        self.order = np.lexsort((self.ids, -best))  # equal scores: the video that was added first
        self.place = {int(self.ids[number]): place for place, number in enumerate(self.order)}
        self.score_of = dict(zip(self.ids.tolist(), best.tolist(), strict=True))

    @cached_property
    def background(self) -> Background:
        if len(self.sections) == len(self.view):
            return self.view.best_background(self.weight)
        return background_of(self.view.background[self.sections], self.view.owners[self.sections], self.weight)

    @cached_property
    def spread(self) -> Spread | None:
        return Spread.of(self.scores)

    def confidence(self, score: float) -> float | None:
        return confidence(score, self.background, self.spread)

    def standing_out(self) -> list[int]:
        """Videos that score above background sentences, best first; all of them where nothing is known of those."""
        sure = {video: self.confidence(self.score_of[video]) for video in islice(self.place, DEPTH)}
        return [video for video, each in sure.items() if each is None or each >= CONFIDENT]

    def evidence(self, video: int) -> MomentEvidence:
        return video_evidence(
            self.query, self.view, self.sections[self.view.owners[self.sections] == video], self.weight
        )


class Ranking:
    """All tracks' answers to one query, fused by rank where there is more than one.

    Every video has its place by its pictures. What is said counts only where it stands out: the best of many lines
    that have nothing to do with a query is no reason to show its video.
    """

    def __init__(self, tracks: Mapping[str, RankedTrack], videos: Mapping[int, Video], options: SearchOptions):
        self.tracks, self.videos, self.options = tracks, videos, options
        if len(tracks) == 1:
            ((name, only),) = tracks.items()
            self.votes = {name: dict(only.place)}
            self.ids = list(only.place)
            self.score = only.score_of
        else:
            voting = {n: list(t.place) if n == FRAMES else t.standing_out() for n, t in tracks.items()}
            self.votes = {name: {video: place for place, video in enumerate(order)} for name, order in voting.items()}
            self.score = fused(voting)
            first = tracks[FRAMES]
            self.ids = sorted(self.score, key=lambda v: (-self.score[v], first.place.get(v, len(self.score)), v))

    def home(self, video: int) -> str:
        """The track in which a video stands best."""
        places = {name: order[video] for name, order in self.votes.items() if video in order}
        return min(places, key=lambda name: (places[name], name != FRAMES))

    def confidence(self, video: int) -> float | None:
        found = [track.confidence(track.score_of[video]) for track in self.tracks.values() if video in track.place]
        return max((each for each in found if each is not None), default=None)

    def by_video(self) -> Iterator[Hit]:
        for video in self.ids:
            yield self.hits_of(video, self.home(video))[0]

    def by_moment(self) -> Iterator[Hit]:
        """Moments of all videos, best first; those of several tracks are fused by rank."""
        streams = {name: self._moments_of(name) for name in self.tracks}
        if len(streams) == 1:
            return next(iter(streams.values()))
        first = {name: list(islice(stream, DEPTH)) for name, stream in streams.items()}
        return chain(fused_moments(first), (replace(hit, score=0.0) for hit in streams[FRAMES]))

    def _moments_of(self, name: str) -> Iterator[Hit]:
        """One track's moments, best first. A moment never scores above its video, so few videos need a look."""
        score, order = self.tracks[name].score_of, list(self.votes[name])
        waiting: list[Hit] = []
        for place, video in enumerate(order):
            waiting += self.hits_of(video, name, apart=True)
            waiting.sort(key=lambda hit: -hit.score)
            following = score[order[place + 1]] if place + 1 < len(order) else -np.inf
            while waiting and waiting[0].score >= following:
                yield waiting.pop(0)
        yield from waiting

    def hits_of(self, video: int, name: str, *, apart: bool = False) -> list[Hit]:
        """A video's moments in one track as hits: the best one with the video's own score, or each with its own."""
        track = self.tracks[name]
        evidence = track.evidence(video)
        curve = evidence.routed if self.options.trace else evidence.direct
        duration = self.videos[video].duration
        stretches = find_stretches(curve, evidence.spans, duration, self.options.moments)
        ranks = {each: one.place[video] + 1 for each, one in self.tracks.items() if video in one.place}
        hits = []
        for stretch in stretches if apart else stretches[:1]:
            own = min(float(evidence.value[stretch.peak]), track.score_of[video])
            hits.append(
                Hit(
                    video=self.videos[video],
                    start=stretch.start,
                    end=stretch.end,
                    score=own if apart else self.score[video],
                    confidence=track.confidence(own) if apart else self.confidence(video),
                    evidence=evidence,
                    moments=(stretch,) if apart else tuple(stretches),
                    track=name,
                    ranks=ranks,
                )
            )
        return hits


@contextmanager
def one_core() -> Iterator[None]:
    """Evidence of single videos is small work: handing it out to several cores costs more than it saves."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Describe = Callable[[Hit], Hit]


def answer(
    query: str,
    tracks: Mapping[str, RankedTrack],
    snapshot: Snapshot,
    options: SearchOptions,
    began: float,
    describe: Describe,
) -> SearchResult:
    """A page of hits."""
    ranking = Ranking(tracks, snapshot.videos, options)
    if not ranking.ids:
        return nothing(query, "no video of the library passes the filters", began)
    top = ranking.confidence(ranking.ids[0])
    confident = top is not None and top >= CONFIDENT
    wanted = ranking.by_video() if options.group_by == "video" else ranking.by_moment()
    passing = (hit for hit in wanted if (hit.confidence or 0.0) >= options.min_confidence)
    if options.group_by == "video" and options.min_confidence == 0:  # no need to look at videos before the page
        more = len(ranking.ids) > options.offset + options.limit
        ranking.ids = ranking.ids[options.offset :]
        found = list(islice(passing, options.limit))
    else:
        found = list(islice(passing, options.offset, options.offset + options.limit + 1))
        more = len(found) > options.limit
    hits = tuple(describe(hit) for hit in found[: options.limit])
    return SearchResult(
        query=query,
        hits=hits,
        confident=confident,
        message=_message(confident, top, bool(hits), options),
        total=len(ranking.score),
        next_offset=options.offset + options.limit if more else None,
        seconds=time.perf_counter() - began,
    )


def _message(confident: bool, top: float | None, any_hits: bool, options: SearchOptions) -> str:
    if options.offset:
        return ""
    if not any_hits:
        return f"nothing reaches the confidence that was asked for ({options.min_confidence:g})"
    if top is None:
        return "confidence is unknown: the encoder understands too few of the background sentences"
    return "" if confident else "no confident match: nothing stands out; the nearest are shown"


def nothing(query: str, message: str, began: float) -> SearchResult:
    return SearchResult(query, (), False, message, 0, None, time.perf_counter() - began)
