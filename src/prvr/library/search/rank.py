"""Third step of a search: section scores become one order of videos.

With one track, its own order counts (``track_rank.py``). With several, tracks are fused by rank (``rank_fusion.py``):
videos are ordered by their frames, and another track changes the order only where it stands out from background
sentences. Videos that hold the words of the query (``words.py``) join the fusion like a track.

Moments are ranked in ``moment_rank.py``, because their scores come from the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import ClassVar

import numpy as np

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.confidence import Presence
from prvr.library.search.rank_fusion import DEPTH, fuse_ranks, rank_points, standing_out
from prvr.library.search.request import SearchRequest
from prvr.library.search.same import AHEAD, SameVideos
from prvr.library.search.track_rank import TrackRanking
from prvr.library.search.words import WORDS, VideoMatch, WordMatches
from prvr.library.store.snapshot import Snapshot


@dataclass(frozen=True)
class RankedVideo:
    """One video in the order of a request."""

    video: int
    track: str  # in which it ranks highest: its moment is taken from there; "words" if no track ranks it
    score: float
    confidence: float | None
    places: dict[str, int]  # its place in each track's own ranking, from 1
    match: VideoMatch | None = None  # where it holds the words of the query
    also: tuple[int, ...] = ()  # other files with the same video


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
    presence: Presence  # whether what was asked for is in the library at all
    same: SameVideos | None = None  # groups files with the same video; None: each file is a hit of its own

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
    snapshot: Snapshot | None = None,
) -> list[Ranking | None]:
    """Rank videos for each request.

    Args:
        requests: Q requests.
        tracks: for each request the rankings of the tracks that understand it.
        words: for each request the videos that hold its words.
        snapshot: with one, files that hold the same video become one hit.

    Returns:
        For each request its ranking; None if no track understands it and no video holds its words.
    """
    words = words or [{} for _ in requests]
    return [
        _rank(request, by_track, matches, None if snapshot is None else SameVideos(snapshot, by_track))
        if by_track or matches
        else None
        for request, by_track, matches in zip(requests, tracks, words, strict=True)
    ]


def _rank(
    request: SearchRequest, tracks: Mapping[str, TrackRanking], words: WordMatches, same: SameVideos | None
) -> Ranking:
    lead = tracks[lead_track(tracks)] if tracks else None
    if request.min_confidence > 0 and lead is not None and lead.standing.odds is None:
        raise LibraryError(
            "this library states no probabilities, so min_confidence cannot be used: they need a trained model "
            "(`prvr library add --model RUN`) that was calibrated when it was trained"
        )
    order = _SingleOrder(tracks) if len(tracks) == 1 and not words else _FusedOrder(tracks, words)
    first = order.top(1)
    videos = _page(order.passing(request), request, same) if request.group_by == "video" else []
    entries = [order.entry(video) for video in videos[: request.limit]]
    return Ranking(
        request=request,
        tracks=tracks,
        words=words,
        fused=order.fused,
        page=tuple(entries if same is None else map(same.shown, entries)),
        more=len(videos) > request.limit,
        total=order.total,
        presence=Presence() if lead is None or not first else lead.presence(*first),
        same=same,
    )


def _page(videos: Iterator[int], request: SearchRequest, same: SameVideos | None) -> list[int]:
    """The videos of the page, and one more if there is one."""
    if same is None:
        return list(islice(videos, request.offset, request.page_end + 1))
    return same.first_of_each(videos, request.page_end + 1)[request.offset :]


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
        return self.track.confidence(video, self.track.score(video))

    def passing(self, request: SearchRequest) -> Iterator[int]:
        """The videos that may be shown, best first."""
        videos = walk(self.top, request.page_end + 1 + AHEAD)
        if request.min_confidence == 0:
            return videos

        def accepted(video: int) -> bool:
            return request.accepts(self.confidence(video))

        # confidence falls with the score, so the first video that fails ends the list; a witness moves only the best
        again = list(islice(videos, 0 if self.track.said is None else self.track.said.fitted.candidates))
        return chain(filter(accepted, again), takewhile(accepted, videos))

    def entry(self, video: int) -> RankedVideo:
        places = places_of(video, {self.name: self.track}, {})
        return RankedVideo(video, self.name, self.track.score(video), self.confidence(video), places)


class _FusedOrder:
    """The order of videos by reciprocal rank fusion of several tracks, and of the words."""

    def __init__(self, tracks: Mapping[str, TrackRanking], words: WordMatches):
        self.tracks, self.words = tracks, words
        self.lead = tracks[lead_track(tracks)] if tracks else None
        self.fused = {
            name: track.top(DEPTH) if track is self.lead else standing_out(track) for name, track in tracks.items()
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
        values = [track.confidence(video, track.score(video)) for track in holding]
        return max((value for value in values if value is not None), default=None)

    def passing(self, request: SearchRequest) -> Iterator[int]:
        """The videos that may be shown, best first."""
        videos = walk(self.top, max(DEPTH, request.page_end + 1 + AHEAD))
        if request.min_confidence == 0:
            return videos
        return (video for video in videos if request.accepts(self.confidence(video)))

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
