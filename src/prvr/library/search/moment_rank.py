"""Rank single moments, for requests that are grouped by moment.

A moment's score comes from the evidence, so this step asks for the evidence of videos while it ranks. A moment never
scores above its video: videos are explained in their order, until no later video can have a better moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from prvr.library.search.moments import FoundMoment
from prvr.library.search.rank import DEPTH, Ranking, rank_points, walk
from prvr.library.search.same import AHEAD, SameVideos

if TYPE_CHECKING:
    from prvr.library.search.explain import MomentEvidence

    Explain = Callable[[str, int], tuple[MomentEvidence, list[FoundMoment]]]  # track, video -> evidence and moments


@dataclass(frozen=True, eq=False)
class RankedMoment:
    """One moment of a video in the order of a request."""

    video: int
    track: str
    score: float
    confidence: float | None
    moment: FoundMoment
    evidence: MomentEvidence
    also: tuple[int, ...] = ()  # other files with the same video


def rank_moments(ranking: Ranking, explain: Explain) -> tuple[list[RankedMoment], bool]:
    """The moments of the request's page, best first, and whether another page follows.

    Args:
        ranking: the videos of the request.
        explain: gives the evidence and moments of a video in a track.
    """
    request = ranking.request
    streams = {name: _moments_of_track(ranking, name, explain) for name in ranking.tracks}
    if ranking.fused:
        first = {name: list(islice(stream, DEPTH)) for name, stream in streams.items()}
        others = (replace(moment, score=0.0) for moment in streams[ranking.lead])
        moments: Iterator[RankedMoment] = chain(fuse_moments(first), others)
    else:
        moments = streams[ranking.lead]
    passing: Iterator[RankedMoment] = (moment for moment in moments if request.accepts(moment.confidence))
    if ranking.same is not None:
        passing = iter(_tell_once(passing, request.page_end + 1, ranking.same))
    page = list(islice(passing, request.offset, request.page_end + 1))
    return page[: request.limit], len(page) > request.limit


def _tell_once(moments: Iterator[RankedMoment], count: int, same: SameVideos) -> list[RankedMoment]:
    """The first moments, at most ``count``, without those that another file with the same video has shown."""
    told: list[RankedMoment] = []
    beyond = 0
    for moment in moments:
        files = same.group(moment.video)
        if len(told) < count and not any(each.video in files and _told_by(moment, each) for each in told):
            told.append(moment)
        beyond += len(told) == count
        if beyond > AHEAD:
            break
    return [same.shown(moment) for moment in told]


def _told_by(moment: RankedMoment, earlier: RankedMoment) -> bool:
    """Whether another file has shown the same moment."""
    return moment.video != earlier.video and _overlap(moment, earlier)


def _moments_of_track(ranking: Ranking, name: str, explain: Explain) -> Iterator[RankedMoment]:
    """One track's moments, best first."""
    track, waiting = ranking.tracks[name], list[RankedMoment]()
    if name == ranking.lead:
        videos = walk(track.top, max(DEPTH, ranking.request.page_end + 1))
    else:
        videos = iter(ranking.fused[name])
    following = next(videos, None)
    while following is not None:
        video, following = following, next(videos, None)
        video_score = track.score(video)
        evidence, moments = explain(name, video)
        for moment in moments:
            score = min(float(evidence.value[moment.peak]), video_score)
            waiting.append(RankedMoment(video, name, score, track.confidence(score), moment, evidence))
        waiting.sort(key=lambda moment: -moment.score)
        least = -np.inf if following is None else track.score(following)
        while waiting and waiting[0].score >= least:
            yield waiting.pop(0)


def fuse_moments(orders: Mapping[str, Sequence[RankedMoment]]) -> list[RankedMoment]:
    """Reciprocal rank fusion of moments. Moments of two tracks that overlap in time become one: the better placed."""
    fused: list[RankedMoment] = []
    by_video: dict[int, list[int]] = defaultdict(list)  # places in ``fused``
    placed = [(place, moment) for order in orders.values() for place, moment in enumerate(order)]
    for place, moment in sorted(placed, key=lambda pair: pair[0]):
        for number in by_video[moment.video]:
            if _overlap_across_tracks(moment, fused[number]):
                values = [value for value in (moment.confidence, fused[number].confidence) if value is not None]
                score = fused[number].score + rank_points(place)
                fused[number] = replace(fused[number], score=score, confidence=max(values, default=None))
                break
        else:
            by_video[moment.video].append(len(fused))
            fused.append(replace(moment, score=rank_points(place)))
    return sorted(fused, key=lambda moment: -moment.score)


def _overlap_across_tracks(one: RankedMoment, other: RankedMoment) -> bool:
    return one.track != other.track and _overlap(one, other)


def _overlap(one: RankedMoment, other: RankedMoment) -> bool:
    return one.moment.start < other.moment.end and other.moment.start < one.moment.end
