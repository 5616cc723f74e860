"""Third step of a search: section scores become one order of videos.

A video scores as its best section. With one track, that is the order. With several, tracks are fused by rank
(reciprocal rank fusion), because scores of different encoders cannot be compared. Videos are ordered by their frames;
another track changes the order only where it stands out from background sentences. Videos that hold the words of the
query (``words.py``) join the fusion like a track.

Moments are ranked in ``moment_rank.py``, because their scores come from the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.confidence import CONFIDENT, Spread, confidence
from prvr.library.search.query import TrackQuery
from prvr.library.search.request import SearchRequest
from prvr.library.search.words import WORDS, VideoMatch, WordMatches
from prvr.library.store.background import Background
from prvr.library.store.sections import Ids, SectionsByVideo, TrackSections

DEPTH = 100  # places of each track that count in a fusion
_RRF = 60  # the usual constant of reciprocal rank fusion


@dataclass(frozen=True, eq=False)
class TrackRanking:
    """One track's scores of one query, by video."""

    query: TrackQuery
    scores: NDArray[np.float32]  # (V,) of ``query.sections.videos``
    background: Background
    spread: Spread | None

    def __len__(self) -> int:
        return len(self.scores)

    def top(self, count: int) -> list[int]:
        """The best videos, at most ``count``. Of equal scores, the video with the lower number comes first."""
        if count < len(self.scores) // 8:  # cheaper than sorting all
            least = np.partition(self.scores, len(self.scores) - count)[len(self.scores) - count]
            some = np.flatnonzero(self.scores >= least)
            columns = some[np.argsort(-self.scores[some], kind="stable")][:count]
        else:
            columns = self._order[:count]
        videos: list[int] = self.query.sections.videos[columns].tolist()
        return videos

    @cached_property
    def _order(self) -> Ids:
        return np.argsort(-self.scores, kind="stable")

    def place(self, video: int) -> int | None:
        """The video's place from 0, or None if the track does not hold it."""
        column = self.query.sections.column(video)
        if column is None:
            return None
        score = self.scores[column]
        return int((self.scores > score).sum() + (self.scores[:column] == score).sum())

    def score(self, video: int) -> float:
        """The score of a video that the track holds."""
        column = self.query.sections.column(video)
        assert column is not None
        return float(self.scores[column])

    def confidence(self, score: float) -> float | None:
        return confidence(score, self.background, self.spread)


def rank_track(
    queries: Sequence[TrackQuery], scores: Sequence[NDArray[np.float32]], sections: TrackSections
) -> list[TrackRanking]:
    """Rank videos by their best section, for each query and its section scores (S',)."""
    backgrounds: dict[tuple[int, float], Background] = {}
    rankings = []
    for query, of_sections in zip(queries, scores, strict=True):
        # Candidates are not a fair sample of the library, so a search among them is compared with all of it.
        group = sections.by_video if query.reference is not None else query.sections
        key = (id(group), query.fusion_weight)
        if key not in backgrounds:
            backgrounds[key] = _background(sections, group, query.fusion_weight)
        by_video = query.sections.best(of_sections)
        sample = by_video if query.reference is None else by_video[np.isin(query.sections.videos, query.reference)]
        rankings.append(TrackRanking(query, by_video, backgrounds[key], Spread.of(sample)))
    return rankings


def _background(sections: TrackSections, group: SectionsByVideo, weight: float) -> Background:
    if len(group) < len(sections):
        return sections.background_on(group, weight)
    return sections.plain_background if weight == 0 else sections.background


@dataclass(frozen=True)
class RankedVideo:
    """One video in the order of a request."""

    video: int
    track: str  # in which it ranks highest: its moment is taken from there; "words" if no track ranks it
    score: float
    confidence: float | None
    places: dict[str, int]  # its place in each track's own ranking, from 1
    match: VideoMatch | None = None  # where it holds the words of the query


@dataclass(frozen=True, eq=False)
class Ranking:
    """The videos that answer one request, best first."""

    request: SearchRequest
    tracks: Mapping[str, TrackRanking]  # none if only words answer
    words: WordMatches  # videos that hold the words of the query
    fused: Mapping[str, list[int]]  # where ranks are fused: the videos of each track that count, best first
    page: tuple[RankedVideo, ...]  # the videos of the page, if the request is grouped by video
    more: bool  # whether another page follows it
    total: int  # videos that were searched
    confidence: float | None  # of the best video

    @property
    def lead(self) -> str:
        """The track that orders videos which no track puts forward."""
        return lead_track(self.tracks)

    def places(self, video: int) -> dict[str, int]:
        """The video's place in each track's own ranking and among the words, from 1."""
        return places_of(video, self.tracks, self.words)


def rank_requests(
    requests: Sequence[SearchRequest],
    tracks: Sequence[Mapping[str, TrackRanking]],
    words: Sequence[WordMatches] | None = None,
) -> list[Ranking | None]:
    """Rank videos for each request.

    Args:
        requests: Q requests.
        tracks: for each request the rankings of the tracks that understand it.
        words: for each request the videos that hold its words.

    Returns:
        For each request its ranking; None if no track understands it and no video holds its words.
    """
    words = words or [{} for _ in requests]
    return [
        _rank(request, by_track, matches) if by_track or matches else None
        for request, by_track, matches in zip(requests, tracks, words, strict=True)
    ]


def _rank(request: SearchRequest, tracks: Mapping[str, TrackRanking], words: WordMatches) -> Ranking:
    order = _SingleOrder(tracks) if len(tracks) == 1 and not words else _FusedOrder(tracks, words)
    videos = order.page(request) if request.group_by == "video" else []
    best = order.top(1)
    return Ranking(
        request=request,
        tracks=tracks,
        words=words,
        fused=order.fused,
        page=tuple(order.entry(video) for video in videos[: request.limit]),
        more=len(videos) > request.limit,
        total=order.total,
        confidence=order.confidence(best[0]) if best else None,
    )


class _SingleOrder:
    """The order of videos in one track."""

    fused: ClassVar[Mapping[str, list[int]]] = {}

    def __init__(self, tracks: Mapping[str, TrackRanking]):
        ((self.name, self.track),) = tracks.items()

    @property
    def total(self) -> int:
        return len(self.track)

    def top(self, count: int) -> list[int]:
        return self.track.top(count)

    def confidence(self, video: int) -> float | None:
        return self.track.confidence(self.track.score(video))

    def page(self, request: SearchRequest) -> list[int]:
        """The videos of the page, and one more if there is one."""
        videos = self.top(request.page_end + 1)
        if request.min_confidence > 0:  # confidence falls with the score, so the first video that fails ends the list
            videos = list(takewhile(lambda video: request.accepts(self.confidence(video)), videos))
        return videos[request.offset :]

    def entry(self, video: int) -> RankedVideo:
        places = places_of(video, {self.name: self.track}, {})
        return RankedVideo(video, self.name, self.track.score(video), self.confidence(video), places)


class _FusedOrder:
    """The order of videos by reciprocal rank fusion of several tracks, and of the words."""

    def __init__(self, tracks: Mapping[str, TrackRanking], words: WordMatches):
        self.tracks, self.words = tracks, words
        self.lead = tracks[lead_track(tracks)] if tracks else None
        self.fused = {
            name: track.top(DEPTH) if track is self.lead else _standing_out(track) for name, track in tracks.items()
        }
        self.points = fuse_ranks(self.fused)
        for video, match in words.items():
            self.points[video] = self.points.get(video, 0.0) + rank_points(match.counted)

        def order(video: int) -> tuple[float, float, float, int]:
            place = None if self.lead is None else self.lead.place(video)
            by_words = words[video].place if video in words else np.inf
            return -self.points[video], np.inf if place is None else place, by_words, video

        self.first = sorted(self.points, key=order)  # all others follow in the order of the lead track

    @property
    def total(self) -> int:
        if self.lead is None:
            return len(self.points)
        return len(self.lead) + sum(self.lead.place(video) is None for video in self.points)

    def top(self, count: int) -> list[int]:
        lead = [] if self.lead is None else self.lead.top(count)
        return [*self.first, *(video for video in lead if video not in self.points)][:count]

    def confidence(self, video: int) -> float | None:
        holding = [track for track in self.tracks.values() if track.place(video) is not None]
        values = [track.confidence(track.score(video)) for track in holding]
        return max((value for value in values if value is not None), default=None)

    def page(self, request: SearchRequest) -> list[int]:
        """The videos of the page, and one more if there is one."""
        if request.min_confidence == 0:
            return self.top(request.page_end + 1)[request.offset :]
        videos = walk(self.top, max(DEPTH, request.page_end + 1))
        passing = (video for video in videos if request.accepts(self.confidence(video)))
        return list(islice(passing, request.offset, request.page_end + 1))

    def entry(self, video: int) -> RankedVideo:
        score = self.points.get(video, 0.0)
        places, match = places_of(video, self.tracks, self.words), self.words.get(video)
        return RankedVideo(video, self._best_track(video), score, self.confidence(video), places, match)

    def _best_track(self, video: int) -> str:
        places = {name: order.index(video) for name, order in self.fused.items() if video in order}
        if self.lead is not None:
            lead = lead_track(self.tracks)
            if lead not in places and (place := self.lead.place(video)) is not None:
                places[lead] = place
            return min(places, key=lambda name: (places[name], name != lead), default=WORDS)
        return WORDS


def lead_track(tracks: Mapping[str, TrackRanking]) -> str:
    """Frames if they can answer, otherwise the first track that can."""
    return FRAMES if FRAMES in tracks else next(iter(tracks))


def places_of(video: int, tracks: Mapping[str, TrackRanking], words: WordMatches) -> dict[str, int]:
    """The video's place in each track's own ranking and among the words, from 1."""
    places = {name: track.place(video) for name, track in tracks.items()}
    places[WORDS] = words[video].place if video in words else None
    return {name: place + 1 for name, place in places.items() if place is not None}


def walk(top: Callable[[int], list[int]], first: int) -> Iterator[int]:
    """All videos, best first, taken from ``top(count)`` in growing steps that begin with ``first``."""
    done, count = 0, first
    while True:
        videos = top(count)
        yield from videos[done:]
        if len(videos) < count:
            return
        done, count = count, 2 * count


def rank_points(place: int) -> float:
    """What a place, counted from 0, is worth in a fusion.

    >>> rank_points(0)
    0.01639344262295082
    """
    return 1 / (_RRF + place + 1) if place < DEPTH else 0.0


def fuse_ranks(orders: Mapping[str, Sequence[int]]) -> dict[int, float]:
    """Reciprocal rank fusion: the sum of 1/(60 + place) over tracks, places counted from 1, the first hundred each.

    >>> fuse_ranks({"frames": [7, 8], "text": [8]})
    {7: 0.01639344262295082, 8: 0.03252247488101534}
    """
    points: dict[int, float] = {}
    for order in orders.values():
        for place, video in enumerate(order):
            points[video] = points.get(video, 0.0) + rank_points(place)
    return points


def _standing_out(track: TrackRanking) -> list[int]:
    """Videos that score above background sentences, best first; all of the best if confidence is unknown."""
    values = {video: track.confidence(track.score(video)) for video in track.top(DEPTH)}
    return [video for video, value in values.items() if value is None or value >= CONFIDENT]
