"""A search and its answer, as pydantic models."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from prvr.library import (
    SCORES_NOTE,
    Filters,
    FoundMoment,
    Hit,
    SearchRequest,
    SearchResult,
    VideoExplanation,
)
from prvr.server.models import (
    DEEPEST,
    Cursor,
    Message,
    Place,
    Real,
    Seconds,
    Tag,
    Time,
    VideoModel,
    Whole,
    Words,
    read_cursor,
    thumbnail_url,
    write_cursor,
)
from prvr.server.roots import Places

MOST_RESULTS = 100


class SearchFilters(Message):
    """Conditions on videos. All that are given must hold."""

    folder: Place | None = Field(default=None, description="only videos in this folder, named as in the results")
    after: Time | None = Field(default=None, description="only files changed at this time or later")
    before: Time | None = Field(default=None, description="only files changed before this time")
    min_duration: Seconds | None = Field(default=None, description="seconds, at least")
    max_duration: Seconds | None = Field(default=None, description="seconds, at most")
    tags: list[Tag] = Field(default_factory=list, max_length=20, description="only videos with all of these tags")

    def to_filters(self, places: Places) -> Filters:
        after, before = (None if day is None else _in_a_zone(day).isoformat() for day in (self.after, self.before))
        folder = places.path(self.folder) if self.folder else None
        return Filters(folder, after, before, self.min_duration, self.max_duration, tuple(self.tags))


def _in_a_zone(day: datetime) -> datetime:
    """A time without a zone is in this machine's zone; years outside its range are taken as UTC."""
    if day.tzinfo is not None or 1970 < day.year < 9999:
        return day
    return day.replace(tzinfo=UTC)


class SearchBody(Message):
    """A search."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": "a red square moves to the left", "limit": 10},
                {
                    "query": "somebody opens a door",
                    "group_by": "moment",
                    "min_confidence": 0.9,
                    "filters": {"folder": "holiday/2024", "min_duration": 60, "tags": ["home"]},
                },
            ]
        },
    )
    query: Words = Field(description="a sentence that describes the moment")
    group_by: Literal["video", "moment"] = Field(default="video", description="one hit per video, or one per moment")
    limit: Whole = Field(default=10, ge=1, le=MOST_RESULTS, description="number of hits on a page")
    cursor: Cursor | None = Field(
        default=None, description="`next_cursor` of the previous page; keep the other fields as they were"
    )
    filters: SearchFilters = SearchFilters()
    min_confidence: Real = Field(default=0.0, ge=0, le=1, description="leave out hits with a lower confidence")
    trace: StrictBool = Field(default=True, description="score with TRACE; false: the plain maximum over time")
    approximate: StrictBool = Field(
        default=False,
        description="score only the candidates of the library's index; 409 if there is no index. "
        "Searches with filters score all videos.",
    )

    def to_request(self, places: Places) -> SearchRequest:
        return SearchRequest(
            query=self.query,
            limit=self.limit,
            offset=read_cursor(self.cursor),
            group_by=self.group_by,
            filters=self.filters.to_filters(places),
            min_confidence=self.min_confidence,
            trace=self.trace,
            approximate=self.approximate,
        )


class MomentModel(BaseModel):
    start: float = Field(description="seconds")
    end: float
    thumbnail_url: str

    @staticmethod
    def of(video: int, moment: FoundMoment) -> MomentModel:
        start, end = round(moment.start, 3), round(moment.end, 3)
        return MomentModel(start=start, end=end, thumbnail_url=thumbnail_url(video, (start + end) / 2))


class HitModel(BaseModel):
    """A moment of a video. Grouped by video: its best moment, with all of them in `moments`."""

    rank: int
    video: VideoModel
    start: float = Field(description="seconds")
    end: float
    score: float = Field(description="can be compared within this search only")
    confidence: float | None = Field(description="share of common sentences that find nothing as good")
    track: str = Field(description="frames or text: which track it was found in")
    ranks: dict[str, int] = Field(description="rank of the video in each track")
    line: str | None = Field(description="the line of subtitles, if it was found in them")
    moments: list[MomentModel]
    thumbnail_urls: list[str] = Field(description="three pictures of the moment, in order of time")
    evidence_url: str

    @staticmethod
    def of(hit: Hit, rank: int, places: Places, asked: str) -> HitModel:
        """``asked``: query and options, encoded for a URL."""
        told = hit.to_dict(evidence=False)
        video = hit.video.id
        times = [hit.start + (hit.end - hit.start) * share for share in (0.1, 0.5, 0.9)]
        return HitModel(
            rank=rank,
            video=VideoModel.of(hit.video, places),
            moments=[MomentModel.of(video, each) for each in hit.moments],
            thumbnail_urls=[thumbnail_url(video, time) for time in times],
            evidence_url=f"/v1/videos/{video}/evidence?{asked}&track={hit.track}",
            **{name: told[name] for name in ("start", "end", "score", "confidence", "track", "ranks", "line")},
        )


class MissingModel(BaseModel):
    """The part of the library that could not be searched."""

    shards: list[int]
    videos: int
    share: float = Field(description="share of all videos of the library, 0 to 1")


class SearchResponse(BaseModel):
    query: str
    confident: bool = Field(description="whether the best hit stands out from common sentences")
    message: str = Field(description="a note for people, or an empty string")
    note: str
    videos_searched: int
    seconds: float
    partial: bool = Field(description="whether a part of the library could not be searched")
    missing: MissingModel | None = Field(description="that part; null where all of it was searched")
    hits: list[HitModel]
    next_cursor: str | None

    @staticmethod
    def of(found: SearchResult, request: SearchBody, places: Places) -> SearchResponse:
        first = read_cursor(request.cursor) + 1
        asked = urlencode({"query": request.query, "trace": str(request.trace).lower()})
        further = found.next_offset
        return SearchResponse(
            query=found.query,
            confident=found.confident,
            message=found.message,
            note=SCORES_NOTE,
            videos_searched=found.total or 0,
            seconds=round(found.seconds, 4),
            partial=found.missing is not None,
            missing=None if found.missing is None else MissingModel(**asdict(found.missing)),
            hits=[HitModel.of(hit, first + number, places, asked) for number, hit in enumerate(found)],
            next_cursor=None if further is None or further > DEEPEST else write_cursor(further),
        )


class PeakModel(BaseModel):
    """The span of the video with the highest value of a curve."""

    index: int
    start: float
    end: float
    value: float


class EvidenceModel(BaseModel):
    """Evidence over time: one number per span of the video."""

    video_id: int
    query: str
    track: str
    spans: list[tuple[float, float]] = Field(description="start and end of each span, in seconds")
    direct: list[float] = Field(description="direct evidence: similarity of the query and the span")
    support: list[float] = Field(description="support that the activated registers give to each span")
    routed: list[float] = Field(description="direct evidence plus routed support; TRACE takes its maximum")
    activation: list[float] = Field(description="activation of each register; sums to one")
    direct_peak: PeakModel = Field(description="maximum of the direct evidence, which plain max pooling takes")
    routed_peak: PeakModel = Field(description="maximum of the routed evidence, which TRACE takes")
    unsupported_gap: float = Field(description="direct evidence minus support at the direct peak")
    unsupported: bool = Field(description="whether the two peaks do not overlap, so that TRACE finds another place")
    moments: list[MomentModel]

    @staticmethod
    def of(video: int, query: str, found: VideoExplanation) -> EvidenceModel:
        told = found.evidence.to_dict()
        for name in ("direct", "support", "routed", "activation"):
            told[name] = [round(value, 4) for value in told[name]]  # more digits than a single-precision float has
        peaks = {}
        for name, curve in (("direct_peak", "direct"), ("routed_peak", "routed")):
            start, end = told["spans"][told[name]]
            peaks[name] = PeakModel(index=told[name], start=start, end=end, value=told[curve][told[name]])
        return EvidenceModel(
            video_id=video,
            query=query,
            track=found.track,
            moments=[MomentModel.of(video, each) for each in found.moments],
            unsupported=not _overlap(peaks["direct_peak"], peaks["routed_peak"]),
            **{**told, **peaks},
        )


def _overlap(one: PeakModel, other: PeakModel) -> bool:
    """Spans overlap their neighbours, so two spans that overlap count as one place."""
    return one.start < other.end and other.start < one.end
