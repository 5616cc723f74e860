"""Ranking: exact scores of all sections, the best per video, moments for those on the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.catalogue import Video
from prvr.library.confidence import best_of_background, confidence
from prvr.library.errors import LibraryError
from prvr.library.evidence import MomentEvidence, video_evidence
from prvr.library.filters import Filters
from prvr.library.moments import MomentOptions, find_stretches
from prvr.library.results import Hit, SearchResult
from prvr.library.snapshot import Snapshot, TrackScores, TrackView
from prvr.library.tracks import FRAMES

GroupBy = Literal["video", "moment"]
CONFIDENT = 0.9  # below it a search says that nothing stands out
_FUSED_DEPTH = 100  # places of each track that count when tracks are fused
_RRF = 60  # the usual constant of reciprocal rank fusion


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
    def background(self) -> NDArray[np.float32]:
        if len(self.sections) == len(self.view):
            return self.view.best_background(self.weight)
        return best_of_background(self.view.background[self.sections], self.weight)

    def confidence(self, score: float) -> float | None:
        return confidence(score, self.background)

    def evidence(self, video: int) -> MomentEvidence:
        return video_evidence(
            self.query, self.view, self.sections[self.view.owners[self.sections] == video], self.weight
        )


class Ranking:
    """All tracks' answers to one query, fused by rank where there is more than one."""

    def __init__(self, tracks: Mapping[str, RankedTrack], videos: Mapping[int, Video], options: SearchOptions):
        self.tracks, self.videos, self.options = tracks, videos, options
        if len(tracks) == 1:
            ((_, only),) = tracks.items()
            self.ids = [int(number) for number in only.ids[only.order]]
            self.score = only.score_of
        else:
            self.score = fused({name: list(track.place) for name, track in tracks.items()})
            first = tracks.get(FRAMES) or next(iter(tracks.values()))
            self.ids = sorted(self.score, key=lambda v: (-self.score[v], first.place.get(v, len(self.score)), v))

    def home(self, video: int) -> tuple[str, RankedTrack]:
        """The track in which a video stands best."""
        return min(
            ((name, track) for name, track in self.tracks.items() if video in track.place),
            key=lambda pair: (pair[1].place[video], pair[0] != FRAMES),
        )

    def confidence(self, video: int) -> float | None:
        found = [track.confidence(track.score_of[video]) for track in self.tracks.values() if video in track.place]
        return max((each for each in found if each is not None), default=None)

    def by_video(self) -> Iterator[Hit]:
        for video in self.ids:
            yield self.hits_of(video)[0]

    def by_moment(self) -> Iterator[Hit]:
        """Moments of all videos, best first. A moment never scores above its video, so few videos need a look."""
        if len(self.tracks) > 1:
            for video in self.ids:
                yield from self.hits_of(video, apart=True)
            return
        waiting: list[Hit] = []
        for place, video in enumerate(self.ids):
            waiting += self.hits_of(video, apart=True)
            waiting.sort(key=lambda hit: -hit.score)
            following = self.score[self.ids[place + 1]] if place + 1 < len(self.ids) else -np.inf
            while waiting and waiting[0].score >= following:
                yield waiting.pop(0)
        yield from waiting

    def hits_of(self, video: int, *, apart: bool = False) -> list[Hit]:
        """A video's moments as hits: the best one with the video's own score, or each with its own."""
        name, track = self.home(video)
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
                    score=own if apart and len(self.tracks) == 1 else self.score[video],
                    confidence=track.confidence(own) if apart else self.confidence(video),
                    evidence=evidence,
                    moments=(stretch,) if apart else tuple(stretches),
                    track=name,
                    ranks=ranks,
                )
            )
        return hits


def fused(orders: Mapping[str, list[int]]) -> dict[int, float]:
    """Reciprocal rank fusion: Σ 1/(60 + place), places counted from 1, the first hundred of each track.

    >>> fused({"frames": [7, 8], "text": [8]})
    {7: 0.01639344262295082, 8: 0.03252247488101534}
    """
    found: dict[int, float] = {}
    for order in orders.values():
        for place, video in enumerate(order):
            found[video] = found.get(video, 0.0) + (1 / (_RRF + place + 1) if place < _FUSED_DEPTH else 0.0)
    return found


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
