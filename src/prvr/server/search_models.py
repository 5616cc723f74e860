"""Requests and responses of searches, as pydantic models."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StringConstraints,
    model_validator,
)

from prvr.library import (
    SCORES_NOTE,
    Filters,
    FoundMoment,
    Hit,
    MomentQuery,
    PresenceWord,
    QueryInput,
    SearchRequest,
    SearchResult,
    TextMatch,
)
from prvr.media import Image
from prvr.server.models import (
    MAX_OFFSET,
    Cursor,
    Integer,
    Name,
    QueryText,
    Real,
    RelativePath,
    RequestModel,
    Seconds,
    Time,
    VideoDescriber,
    VideoModel,
    read_cursor,
    thumbnail_url,
    write_cursor,
)
from prvr.server.outline import outline_of
from prvr.server.pictures import MAX_TEXT, DecodedPicture
from prvr.server.roots import LibraryFolders
from prvr.trace import Verdict

_MAX_LIMIT = 100
_HIT_FIELDS = ("start", "end", "score", "confidence", "verdict", "track", "ranks", "line")


class SearchFilters(RequestModel):
    """Conditions that videos must meet, all of them."""

    folder: RelativePath | None = Field(default=None, description="only videos in this folder, named as in responses")
    after: Time | None = Field(default=None, description="only files last changed at this time or later")
    before: Time | None = Field(default=None, description="only files last changed before this time")
    min_duration: Seconds | None = Field(default=None, description="shortest duration in seconds")
    max_duration: Seconds | None = Field(default=None, description="longest duration in seconds")
    tags: list[Name] = Field(default_factory=list, max_length=20, description="only videos with all of these tags")

    def to_filters(self, folders: LibraryFolders) -> Filters:
        after, before = (None if day is None else _with_zone(day).isoformat() for day in (self.after, self.before))
        folder = folders.path(self.folder) if self.folder else None
        return Filters(
            folder=folder,
            after=after,
            before=before,
            min_duration=self.min_duration,
            max_duration=self.max_duration,
            tags=tuple(self.tags),
        )


def _with_zone(day: datetime) -> datetime:
    """A time without a zone is in this machine's zone. In years that this zone cannot represent, it is UTC."""
    if day.tzinfo is not None or 1970 < day.year < 9999:
        return day
    return day.replace(tzinfo=UTC)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]+={0,2}$", max_length=MAX_TEXT)]
_LEFT_OUT: Any = None
_ASKED: tuple[Literal["query", "like", "picture"], ...] = ("query", "like", "picture")


class LikeModel(RequestModel):
    """A moment of a video of the library."""

    video: Integer = Field(ge=1, le=2**53, description="number of the video", examples=[1])
    start: Seconds = Field(description="seconds")
    end: Seconds | None = Field(default=None, description="seconds; null: only what is on screen at `start`")


class SearchBody(RequestModel):
    """A search for the moments that a sentence describes, or that look like a picture or another moment.

    Give one of `query`, `like` and `picture`.
    """

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
                {"like": {"video": 1, "start": 12.5, "end": 18.0}, "limit": 10},
            ],
            "oneOf": [{"required": [name]} for name in _ASKED],
        },
    )
    # One of these three is given: ``kind``. The others are None, which nobody reads; a client may not send null.
    query: QueryText = Field(
        default=_LEFT_OUT, json_schema_extra=_without_default, description="a sentence that describes the moment"
    )
    like: LikeModel = Field(
        default=_LEFT_OUT,
        json_schema_extra=_without_default,
        description="a moment: find others that look like it. Its own video is left out.",
    )
    picture: _Base64 = Field(
        default=_LEFT_OUT,
        json_schema_extra=_without_default,
        description="a .jpg, .png or .webp file of at most 8 MiB, in base64: find moments that look like it",
    )
    group_by: Literal["video", "moment"] = Field(default="video", description="one hit per video, or one per moment")
    limit: Integer = Field(default=10, ge=1, le=_MAX_LIMIT, description="number of hits in one response")
    cursor: Cursor | None = Field(
        default=None, description="`next_cursor` of the previous response, to get more hits; keep all other fields"
    )
    filters: SearchFilters = SearchFilters()
    min_confidence: Real = Field(
        default=0.0, ge=0, le=1, description="leave out hits with a lower confidence; needs a calibrated model"
    )
    trace: StrictBool = Field(default=True, description="true: score with TRACE; false: plain max pooling over time")
    approximate: StrictBool = Field(
        default=False,
        description="score only candidates from the library's index; status 409 if there is no index. "
        "A search with filters scores all videos.",
    )
    _image: Image | None = PrivateAttr(default=None)  # ``picture``, decoded

    @model_validator(mode="after")
    def _check_one_is_asked(self) -> SearchBody:
        if sum(name in self.model_fields_set for name in _ASKED) != 1:
            raise ValueError("give one of `query`, `like` and `picture`")
        return self

    @property
    def kind(self) -> Literal["query", "like", "picture"]:
        """What is asked."""
        return next(name for name in _ASKED if name in self.model_fields_set)

    def with_picture(self, picture: DecodedPicture) -> SearchBody:
        """The same search with its picture decoded. ``picture`` then holds the name under which the server keeps it."""
        body = self.model_copy(update={"picture": picture.name})
        body._image = picture.image
        return body

    @property
    def asked(self) -> QueryInput:
        """The sentence, moment or decoded picture."""
        match self.kind:
            case "query":
                return self.query
            case "like":
                return MomentQuery(self.like.video, self.like.start, self.like.end)
            case "picture":
                assert self._image is not None
                return self._image

    @property
    def evidence_parameters(self) -> str:
        """The query and its options, encoded for the URL of the evidence."""
        asked = self.asked
        text = asked.address if isinstance(asked, MomentQuery) else getattr(self, self.kind)
        return urlencode({self.kind: text, "trace": str(self.trace).lower()})

    def to_request(self, folders: LibraryFolders) -> SearchRequest:
        return SearchRequest(
            query=self.asked,
            limit=self.limit,
            offset=read_cursor(self.cursor),
            group_by=self.group_by,
            filters=self.filters.to_filters(folders),
            min_confidence=self.min_confidence,
            trace=self.trace,
            approximate=self.approximate,
        )


class MomentModel(BaseModel):
    """A moment of a video."""

    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    thumbnail_url: str

    @staticmethod
    def of(video: int, moment: FoundMoment) -> MomentModel:
        start, end = round(moment.start, 3), round(moment.end, 3)
        return MomentModel(start=start, end=end, thumbnail_url=thumbnail_url(video, (start + end) / 2))


class MatchModel(BaseModel):
    """Where the words of a query were found."""

    where: Literal["subtitles", "name", "folder", "tags"]
    text: str = Field(description="the line, name, folder or tags")

    @staticmethod
    def of(match: TextMatch, video: VideoModel) -> MatchModel:
        """A folder is named as in ``video``, because no answer contains a path of this machine."""
        return MatchModel(where=match.where, text=video.folder if match.where == "folder" else match.text)


class HitModel(BaseModel):
    """A video and its best moment. If hits are grouped by video, `moments` holds the other moments too."""

    rank: int
    video: VideoModel
    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    score: float = Field(description="comparable only within this search")
    confidence: float | None = Field(
        description="probability that this is right; null if the library's model is not calibrated"
    )
    verdict: Verdict | None = Field(
        description="whether the rest of the video supports it; null where that was not found to say anything"
    )
    track: str = Field(description="the track of the evidence: `frames` or `text`; `words` if there is none")
    ranks: dict[str, int] = Field(description="rank of the video in each track, and among the `words` of the query")
    line: str | None = Field(description="the line of subtitles, if it was found there")
    matched: MatchModel | None = Field(description="where the words of the query were found; null if nowhere")
    also_at: list[str] = Field(
        description="folder and name of other files with the same video: links, copies, re-encodes"
    )
    moments: list[MomentModel]
    thumbnail_urls: list[str] = Field(description="three pictures from the moment, in order of time")
    evidence_url: str | None = Field(
        description="null if no encoder understands the query; that of a picture works as long as the server keeps it"
    )
    outline: list[float] = Field(
        description="the evidence over the time of the video in at most 48 steps, to draw it small; comparable within "
        "this search and track; empty without evidence"
    )

    @staticmethod
    def of(hit: Hit, rank: int, describer: VideoDescriber, parameters: str, *, trace: bool) -> HitModel:
        """``parameters``: query and options of the search, encoded for a URL."""
        fields = hit.to_dict(evidence=False)
        video, described = hit.video.id, describer.describe(hit.video)
        url = f"/v1/videos/{video}/evidence?{parameters}&track={hit.track}"
        times = [hit.start + (hit.end - hit.start) * share for share in (0.1, 0.5, 0.9)]
        return HitModel(
            rank=rank,
            video=described,
            also_at=[describer.name(path) for path in hit.also_at],
            matched=None if hit.matched is None else MatchModel.of(hit.matched, described),
            moments=[MomentModel.of(video, moment) for moment in hit.moments],
            thumbnail_urls=[thumbnail_url(video, time) for time in times],
            evidence_url=None if hit.evidence is None else url,
            outline=[] if hit.evidence is None else outline_of(hit.evidence, trace=trace),
            **{name: fields[name] for name in _HIT_FIELDS},
        )


class PresenceModel(BaseModel):
    """Whether what was asked for is in the library at all. Filters and pages do not change it."""

    word: PresenceWord | None = Field(description="null if unknown, or if there is a probability")
    probability: float | None = Field(description="null if the library's model is not calibrated")


class UnderstoodModel(BaseModel):
    """What an encoder with a limited vocabulary made of the query."""

    used: list[str]
    ignored: list[str]


class SearchResponse(BaseModel):
    """The hits of a search, best first."""

    query: str = Field(description="what was asked, in words")
    presence: PresenceModel
    confident: bool = Field(description="whether it stands out, or is there with a probability of 0.9 or more")
    understood: UnderstoodModel | None = Field(description="which words were used; null: all of them")
    message: str = Field(description="a message to show to people, or an empty string")
    note: str = Field(description="what the scores mean")
    videos_searched: int
    seconds: float = Field(description="time that the search took")
    hits: list[HitModel]
    next_cursor: str | None = Field(description="send it as `cursor` to get more hits; null if there are none")

    @staticmethod
    def of(result: SearchResult, request: SearchBody, describer: VideoDescriber) -> SearchResponse:
        first, parameters = read_cursor(request.cursor) + 1, request.evidence_parameters
        next_offset = result.next_offset
        return SearchResponse(
            query=result.query,
            presence=PresenceModel(**result.presence.to_dict()),
            confident=result.confident,
            understood=None if result.understood is None else UnderstoodModel(**asdict(result.understood)),
            message=result.message,
            note=SCORES_NOTE,
            videos_searched=result.total or 0,
            seconds=round(result.seconds, 4),
            hits=[
                HitModel.of(hit, rank, describer, parameters, trace=request.trace)
                for rank, hit in enumerate(result, first)
            ],
            next_cursor=None if next_offset is None or next_offset > MAX_OFFSET else write_cursor(next_offset),
        )
