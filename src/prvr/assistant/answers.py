"""What the tools answer. The descriptions of the fields are part of what the assistant reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field

from prvr.library import FoundMoment, Hit, MomentEvidence, SearchResult, Video, VideoExplanation

MAX_OFFSET = 100_000  # the last hit that paging reaches
_MOST_POINTS = 60  # of a curve: enough to see its shape, few enough to read
VerdictOrNone = Annotated[
    str | None, Field(description="whether the rest of the video supports the moment; null if that is unknown")
]


class Stretch(BaseModel):
    """A part of a video."""

    start: float = Field(description="seconds from the beginning of the video")
    end: float = Field(description="seconds from the beginning of the video")

    @staticmethod
    def of(moment: FoundMoment) -> Stretch:
        return Stretch(start=round(moment.start, 2), end=round(moment.end, 2))


class FoundVideo(BaseModel):
    """One hit of a search."""

    video: int = Field(description="number of the video, which the other tools take")
    path: str = Field(description="the video file")
    start: float = Field(description="where the moment begins, in seconds")
    end: float = Field(description="where the moment ends, in seconds")
    length: float | None = Field(description="length of the whole video in seconds")
    score: float = Field(description="comparable within this search only")
    confidence: float | None = Field(description="probability that this is right; null if the library cannot tell")
    verdict: VerdictOrNone
    said: str | None = Field(description="what is said there, if it was found in the subtitles")
    words_in: str | None = Field(description="where the words of the query stand: subtitles, name, folder or tags")
    other_moments: list[Stretch] = Field(description="other parts of the video that match nearly as well")
    tags: list[str]
    also_at: list[str] = Field(description="other files with the same video")

    @staticmethod
    def of(hit: Hit) -> FoundVideo:
        return FoundVideo(
            video=hit.video.id,
            path=str(hit.video.path),
            start=round(hit.start, 2),
            end=round(hit.end, 2),
            length=_rounded(hit.video.duration),
            score=round(hit.score, 4),
            confidence=None if hit.confidence is None else round(hit.confidence, 3),
            verdict=hit.verdict,
            said=hit.line,
            words_in=None if hit.matched is None else hit.matched.where,
            other_moments=[Stretch.of(moment) for moment in hit.moments[1:]],
            tags=list(hit.video.tags),
            also_at=[str(path) for path in hit.also_at],
        )


class SearchAnswer(BaseModel):
    """What a search found, the best first."""

    message: str = Field(description="how far to trust the answer, in words; tell it to the person")
    sure: bool = Field(description="whether the first hit can be relied on. The nearest moments are given in any case")
    ignored_words: list[str] = Field(description="words of the query that the encoder does not know")
    videos_searched: int
    hits: list[FoundVideo]
    next_offset: int | None = Field(description="`offset` of the next page; null if there are no more hits")

    @staticmethod
    def of(result: SearchResult) -> SearchAnswer:
        following = result.next_offset
        return SearchAnswer(
            message=result.message,
            sure=result.confident,
            ignored_words=[] if result.understood is None else list(result.understood.ignored),
            videos_searched=result.total or 0,
            hits=[FoundVideo.of(hit) for hit in result],
            next_offset=None if following is None or following > MAX_OFFSET else following,
        )


class CurvePoint(BaseModel):
    """How well a part of a video matches."""

    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    match: float = Field(description="direct similarity of the words and the pictures there")
    support: float = Field(description="how much the rest of the video supports it")
    together: float = Field(description="both; moments are cut out where this is high")


class EvidenceAnswer(BaseModel):
    """Why a video answers a query, or does not."""

    video: int
    path: str
    why: str = Field(description="in words")
    verdict: VerdictOrNone
    moments: list[Stretch] = Field(description="the parts that match, the best first")
    curve: list[CurvePoint] = Field(description=f"the evidence over time; of long videos {_MOST_POINTS} of its peaks")

    @staticmethod
    def of(video: Video, found: VideoExplanation) -> EvidenceAnswer:
        return EvidenceAnswer(
            video=video.id,
            path=str(video.path),
            why=found.why,
            verdict=found.verdict,
            moments=[Stretch.of(moment) for moment in found.moments],
            curve=_curve(found.evidence),
        )


class VideoEntry(BaseModel):
    """A file of the library."""

    video: int = Field(description="number of the video, which the other tools take")
    path: str
    state: str = Field(description="ok, or failed: the file could not be read")
    problem: str | None = Field(description="why it could not be read, or which part of it")
    length: float | None = Field(description="seconds")
    changed: datetime = Field(description="when the file was last changed")
    tags: list[str]

    @staticmethod
    def of(video: Video) -> VideoEntry:
        return VideoEntry(
            video=video.id,
            path=str(video.path),
            state=video.state,
            problem=video.problem,
            length=_rounded(video.duration),
            changed=datetime.fromtimestamp(min(max(video.date, 0.0), 253402300799.0), UTC),
            tags=list(video.tags),
        )


class VideoListing(BaseModel):
    """A part of the list of videos."""

    total: int = Field(description="number of videos that meet the conditions")
    videos: list[VideoEntry]
    next_offset: int | None = Field(description="`offset` of the next page; null at the end")


class LibraryOverview(BaseModel):
    """What the library holds."""

    library: str
    videos: int
    failed: int = Field(description="files that could not be read")
    hours: float = Field(description="of video")
    subtitle_lines: int
    encoder: str
    limits: str | None = Field(description="what the encoder cannot understand; null if there is nothing to say")
    tags: list[str]
    activity: list[str] = Field(description="what is being done to the library at this moment")


class ClipAnswer(BaseModel):
    """A clip that was cut."""

    path: str = Field(description="the .mp4 file, on the machine of this server")
    uri: str = Field(description="address under which a client can read the file as a resource")
    video: int
    start: float = Field(description="where the clip begins in the video, in seconds")
    end: float
    bytes: int = Field(description="size of the file")


def _curve(evidence: MomentEvidence) -> list[CurvePoint]:
    """The evidence token by token; of a long video, the best token of each of several equal parts."""
    groups = np.array_split(np.arange(len(evidence.spans)), min(_MOST_POINTS, len(evidence.spans)))
    chosen = [int(group[evidence.routed[group].argmax()]) for group in groups]
    return [
        CurvePoint(
            start=round(float(evidence.spans[token, 0]), 2),
            end=round(float(evidence.spans[token, 1]), 2),
            match=round(float(evidence.direct[token]), 4),
            support=round(float(evidence.expected_support[token]), 4),
            together=round(float(evidence.routed[token]), 4),
        )
        for token in chosen
    ]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
