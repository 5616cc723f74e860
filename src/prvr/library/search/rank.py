"""Third step of a search: section scores become one order of videos.

A video scores as its best section. With one track, that is the order. With several, tracks are fused by rank
(reciprocal rank fusion), because scores of different encoders cannot be compared. Every video keeps its place by its
pictures; text counts only where it stands out from background sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile

import numpy as np
from numpy.typing import NDArray

from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.confidence import CONFIDENT, Spread, confidence
from prvr.library.search.query import TrackQuery
from prvr.library.search.request import SearchRequest
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


@dataclass(frozen=True, eq=False)
class Ranking:
    """The videos that answer one request, best first, from the rankings of its tracks."""

    request: SearchRequest
    tracks: Mapping[str, TrackRanking]  # at least one

    @cached_property
    def only(self) -> str | None:
        """The track's name if there is just one; None if tracks are fused."""
        return next(iter(self.tracks)) if len(self.tracks) == 1 else None

    @cached_property
    def voters(self) -> dict[str, list[int]]:
        """By track, the videos that count in the fusion, best first."""
        return {
            name: track.top(DEPTH) if name == FRAMES else _standing_out(track) for name, track in self.tracks.items()
        }

    @cached_property
    def _points(self) -> dict[int, float]:
        return {} if self.only is not None else fuse_ranks(self.voters)

    @cached_property
    def _leaders(self) -> list[int]:
        """Videos with points, best first. All others follow in the order of their pictures."""
        frames = self.tracks[FRAMES]

        def order(video: int) -> tuple[float, float, int]:
            place = frames.place(video)
            return -self._points[video], np.inf if place is None else place, video

        return sorted(self._points, key=order)

    @cached_property
    def total(self) -> int:
        """How many videos were searched."""
        if self.only is not None:
            return len(self.tracks[self.only])
        frames = self.tracks[FRAMES]
        return len(frames) + sum(frames.place(video) is None for video in self._points)

    def top(self, count: int) -> list[int]:
        """The best videos, at most ``count``."""
        if self.only is not None:
            return self.tracks[self.only].top(count)
        others = (video for video in self.tracks[FRAMES].top(count) if video not in self._points)
        return [*self._leaders, *others][:count]

    def walk(self) -> Iterator[int]:
        """All videos, best first, as far as the caller goes."""
        return walk(self, max(DEPTH, self.request.page_end + 1))

    def score(self, video: int) -> float:
        return self._points.get(video, 0.0) if self.only is None else self.tracks[self.only].score(video)

    def places(self, video: int) -> dict[str, int]:
        """The video's place in each track's own ranking, from 1."""
        places = {name: track.place(video) for name, track in self.tracks.items()}
        return {name: place + 1 for name, place in places.items() if place is not None}

    def track_of(self, video: int) -> str:
        """The track in which a video stands best: its moment is taken from there."""
        if self.only is not None:
            return self.only
        places = {name: order.index(video) for name, order in self.voters.items() if video in order}
        if FRAMES not in places and (place := self.tracks[FRAMES].place(video)) is not None:
            places[FRAMES] = place
        return min(places, key=lambda name: (places[name], name != FRAMES))

    def confidence(self, video: int) -> float | None:
        names = [self.only] if self.only is not None else self.places(video)
        values = [self.tracks[name].confidence(self.tracks[name].score(video)) for name in names]
        return max((value for value in values if value is not None), default=None)

    def is_confident_enough(self, value: float | None) -> bool:
        return (value or 0.0) >= self.request.min_confidence

    @cached_property
    def page(self) -> list[int]:
        """The videos of the page, and one more if there is one."""
        request = self.request
        if request.min_confidence == 0:
            return self.top(request.page_end + 1)[request.offset :]

        def passes(video: int) -> bool:
            return self.is_confident_enough(self.confidence(video))

        # In one track confidence falls with the score, so the first video that fails ends the list.
        passing = takewhile(passes, self.walk()) if self.only is not None else filter(passes, self.walk())
        return list(islice(passing, request.offset, request.page_end + 1))


def rank_requests(
    requests: Sequence[SearchRequest], tracks: Sequence[Mapping[str, TrackRanking]]
) -> list[Ranking | None]:
    """One order of videos for each request; None if no track understands it."""
    return [Ranking(request, of) if of else None for request, of in zip(requests, tracks, strict=True)]


def walk(ranking: Ranking | TrackRanking, first: int) -> Iterator[int]:
    """All videos of a ranking, best first, sorted in growing steps that begin with ``first``."""
    done, count = 0, first
    while True:
        videos = ranking.top(count)
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
