"""Third step of a search: section scores become one order of videos.

A video scores as its best section. With an encoder alone, a part of what the video scores with everybody is taken off,
so that *hubs*, which resemble every sentence a little, do not win (``Knowledge.hub_weight``).

With one track, that is the order. With several, tracks are fused by rank (reciprocal rank fusion), because scores of
different encoders cannot be compared. Videos are ordered by their frames; another track changes the order only where it
stands out from background sentences. Videos that hold the words of the query (``words.py``) join the fusion like a
track.

Moments are ranked in ``moment_rank.py``, because their scores come from the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.confidence import FEWEST_SENTENCES, Presence, Standing
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.query import TrackQuery
from prvr.library.search.request import SearchRequest
from prvr.library.search.same import AHEAD, SameVideos
from prvr.library.search.words import WORDS, VideoMatch, WordMatches
from prvr.library.store.blocks import Ids
from prvr.library.store.sections import TrackSections
from prvr.library.store.snapshot import Snapshot

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SentenceWords

DEPTH = 100  # places of each track that count in a fusion
_RRF = 60  # the usual constant of reciprocal rank fusion
_STANDS_OUT = 0.9  # share of background sentences that a line must score above, to count beside the pictures


@dataclass(frozen=True, eq=False)
class TrackRanking:
    """One track's scores of one query, by video."""

    query: TrackQuery
    scores: NDArray[np.float32]  # (V,) of ``query.sections.videos``
    standing: Standing
    taken_off: NDArray[np.float32] | None = None  # (V,) part of what each video scores with everybody
    lift: NDArray[np.float32] | None = None  # (V,) what a witness added to the score of each video
    said: SentenceWords | None = None  # the words that the witness read

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

    def holds(self, video: int) -> bool:
        """Whether the track has this video."""
        return self.query.sections.column(video) is not None

    def score(self, video: int) -> float:
        """The score of a video that the track holds."""
        column = self.query.sections.column(video)
        assert column is not None
        return float(self.scores[column])

    def taken_off_score(self, video: int) -> float:
        """What was taken off the video's score, because it scores as much with everybody."""
        column = self.query.sections.column(video)
        return 0.0 if self.taken_off is None or column is None else float(self.taken_off[column])

    def lift_of(self, video: int) -> float:
        """What a witness added to the score of a video that the track holds."""
        return 0.0 if self.lift is None else float(self.lift[self.query.sections.column(video)])

    def confidence(self, video: int, score: float) -> float | None:
        """The probability that a video, or a moment of it, is right. It is known for scores without a witness."""
        return self.standing.confidence(score - self.lift_of(video))


def rank_track(
    queries: Sequence[TrackQuery],
    scores: Sequence[NDArray[np.float32]],
    sections: TrackSections,
    knowledge: Knowledge,
    variations: Sequence[NDArray[np.float32] | None] | None = None,
) -> list[TrackRanking]:
    """Rank videos by their best section.

    Args:
        queries: Q queries.
        scores: for each query those of the sections that it reads (S',).
        sections: of the track.
        knowledge: how far its answers can be trusted.
        variations: for each query the best score of each of its variations, if its encoder knows few words.
    """
    rankings = []
    for query, of_sections, varied in zip(queries, scores, variations or [None] * len(queries), strict=True):
        read = query.read.best(of_sections)
        taken_off = None
        if knowledge.hub_weight > 0 and len(read) and sections.understood.sum() >= FEWEST_SENTENCES:
            taken_off = knowledge.hub_weight * sections.score_with_everybody(query.read, query.fusion_weight)
        standing = Standing(
            read,
            sections.plain_background if query.fusion_weight == 0 else sections.background,
            knowledge.calibrations.get(query.fusion_weight > 0),
            None if query.reference is None else _weights(query, len(sections.by_video.videos)),
            varied,
            leads=taken_off is None or int(read.argmax()) == int((read - taken_off).argmax()),
        )
        found = np.searchsorted(query.read.videos, query.sections.videos)
        if taken_off is None:
            rankings.append(TrackRanking(query, read[found], standing))
        else:
            rankings.append(TrackRanking(query, (read - taken_off)[found], standing, taken_off[found]))
    return rankings


def _weights(query: TrackQuery, videos: int) -> NDArray[np.float64]:
    """For how many videos of the library each one that was read stands: the sample stands for all that were not."""
    assert query.reference is not None
    sample = np.isin(query.read.videos, query.reference)
    return np.where(sample, 1 + (videos - len(sample)) / max(1, sample.sum()), 1.0)


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
    lead = tracks[lead_track(tracks)].standing if tracks else None
    if request.min_confidence > 0 and lead is not None and lead.odds is None:
        raise LibraryError(
            "this library states no probabilities, so min_confidence cannot be used: they need a trained model "
            "(`prvr library add --model RUN`) that was calibrated when it was trained"
        )
    order = _SingleOrder(tracks) if len(tracks) == 1 and not words else _FusedOrder(tracks, words)
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
        presence=Presence() if lead is None else lead.presence,
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
    """Videos that score above nearly all background sentences, best first; all of the best if those are too few."""
    if len(track.standing.background.best) < FEWEST_SENTENCES:
        return track.top(DEPTH)
    return [video for video in track.top(DEPTH) if track.standing.above_background(track.score(video)) >= _STANDS_OUT]
