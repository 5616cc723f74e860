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
from numpy.typing import NDArray

from prvr.library.search.moments import FoundMoment
from prvr.library.search.rank import Ranking, walk
from prvr.library.search.rank_fusion import DEPTH, rank_points
from prvr.library.search.same import SameVideos
from prvr.library.search.words import WORDS, TextMatch, VideoMatch

if TYPE_CHECKING:
    from prvr.library.search.explain import MomentEvidence

    # track, video -> the track that explains it, its evidence and moments; at least one
    Explain = Callable[[str, int], tuple[str, MomentEvidence | None, list[FoundMoment]]]

_AHEAD = 4  # moments after the page that may be of other files of its hits; each needs the evidence of a video
_UNTIMED_LINE = 1.0  # seconds that a subtitle line lasts which ends where it starts


@dataclass(frozen=True, eq=False)
class RankedMoment:
    """One moment of a video in the order of a request."""

    video: int
    track: str
    score: float
    confidence: float | None
    moment: FoundMoment
    evidence: MomentEvidence | None
    match: TextMatch | None = None  # where the words of the query were found
    also: tuple[int, ...] = ()  # other files with the same video


def rank_moments(ranking: Ranking, explain: Explain) -> tuple[list[RankedMoment], bool]:
    """The moments of the request's page, best first, and whether another page follows.

    Args:
        ranking: the videos of the request.
        explain: gives the evidence and moments of a video in a track.
    """
    request = ranking.request
    streams = {name: _moments_of_track(ranking, name, explain) for name in ranking.tracks}
    if ranking.fused or ranking.words:
        said = {WORDS: _moments_of_words(ranking, explain)} if ranking.words else {}
        first = {name: list(islice(stream, DEPTH)) for name, stream in (said | streams).items()}
        rest = [*said.values(), *(streams[name] for name in streams if name == ranking.lead)]
        others = (replace(moment, score=0.0) for moment in chain(*rest))
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
        if beyond > _AHEAD:
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
        _, evidence, moments = explain(name, video)
        assert evidence is not None
        for moment in moments:
            score = min(float(evidence.value[moment.peak]), video_score)
            waiting.append(RankedMoment(video, name, score, track.confidence(video, score), moment, evidence))
        waiting.sort(key=lambda moment: -moment.score)
        least = -np.inf if following is None else track.score(following)
        while waiting and waiting[0].score >= least:
            yield waiting.pop(0)


def _moments_of_words(ranking: Ranking, explain: Explain) -> Iterator[RankedMoment]:
    """The lines that hold the words of the query; for a name, folder or tag the best moment of its video."""
    for video, found in ranking.words.items():
        track, evidence, moments = explain(WORDS, video)
        if found.best.where == "subtitles":
            moments = line_moments(found, None if evidence is None else evidence.spans)
        for number, (moment, match) in enumerate(zip(moments, found.matches, strict=False)):
            yield RankedMoment(video, track, rank_points(found.counted + number), None, moment, evidence, match)


def line_moments(found: VideoMatch, spans: NDArray[np.float32] | None) -> list[FoundMoment]:
    """Subtitle lines as moments. Their peak is the token in the middle; ``spans`` (m, 2) are those of the evidence."""
    moments = []
    for match in found.matches:
        assert match.start is not None
        assert match.end is not None
        end = match.end if match.end > match.start else match.start + _UNTIMED_LINE
        middle = (match.start + end) / 2
        peak = 0 if spans is None else int(np.abs(spans.mean(1) - middle).argmin())
        moments.append(FoundMoment(match.start, end, peak))
    return moments


def fuse_moments(orders: Mapping[str, Sequence[RankedMoment]]) -> list[RankedMoment]:
    """Reciprocal rank fusion of moments. Moments of two tracks that overlap in time become one: the better placed.

    Moments in ``orders["words"]`` bring their points along, because several of them may share a place.
    """
    fused: list[RankedMoment] = []
    by_video: dict[int, list[int]] = defaultdict(list)  # places in ``fused``
    placed = [(place, name, moment) for name, order in orders.items() for place, moment in enumerate(order)]
    for place, name, moment in sorted(placed, key=lambda each: each[0]):
        points = moment.score if name == WORDS else rank_points(place)
        for number in by_video[moment.video]:
            if _overlap_across_tracks(moment, fused[number]):
                values = [value for value in (moment.confidence, fused[number].confidence) if value is not None]
                fused[number] = replace(
                    fused[number],
                    score=fused[number].score + points,
                    confidence=max(values, default=None),
                    match=fused[number].match or moment.match,
                )
                break
        else:
            by_video[moment.video].append(len(fused))
            fused.append(replace(moment, score=points))
    return sorted(fused, key=lambda moment: -moment.score)


def _overlap_across_tracks(one: RankedMoment, other: RankedMoment) -> bool:
    across = one.track != other.track or (one.match is None) != (other.match is None)
    return across and _overlap(one, other)


def _overlap(one: RankedMoment, other: RankedMoment) -> bool:
    return one.moment.start < other.moment.end and other.moment.start < one.moment.end
