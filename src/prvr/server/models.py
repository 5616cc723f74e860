"""Requests and answers of the API, as pydantic models. The rooms behind it use dataclasses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints

from prvr.library import Video
from prvr.server.jobs import Job, State
from prvr.server.ranges import title
from prvr.server.roots import Places

DEEPEST = 99_999  # the last result that paging reaches
_TOLD = 10_000  # videos whose description is cached


def _plain(text: str) -> str:
    """Refuse text with surrogates, which cannot be stored or sent."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("contains characters that are not valid Unicode")
    return text


def _bare(text: str) -> str:
    """Remove blanks around a text, and refuse one of blanks only."""
    if not (bare := text.strip()):
        raise ValueError("contains only blanks")
    return bare


def _number(value: object) -> object:
    """Refuse a string where JSON should hold a number."""
    if isinstance(value, str | bool):
        raise ValueError("is not a number")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("is not a time: write it as 2024-05-31T18:00:00Z")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
Real = Annotated[float, BeforeValidator(_number)]
Seconds = Annotated[float, Field(ge=0, le=1e9), BeforeValidator(_number)]
Time = Annotated[datetime, BeforeValidator(_text)]
Plain = AfterValidator(_plain)
Bare = AfterValidator(_bare)
_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"  # no NUL, and not only blanks; stands in the schema, so that clients know
Words = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_SOMETHING), Plain, Bare]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_SOMETHING), Plain, Bare]
Place = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$"), Plain]
Cursor = Annotated[str, StringConstraints(pattern=r"^p[0-9]{1,5}$"), Field(examples=["p10"])]
Number = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """A request. Unknown fields are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class VideoModel(BaseModel):
    """A video file of the library."""

    id: int
    title: str
    filename: str
    folder: str = Field(description="relative to the folder that holds all videos of the library; '' is that folder")
    state: str = Field(description="ok, or failed")
    problem: str | None = Field(description="why it failed, or which part could not be read")
    duration: float | None = Field(description="seconds")
    width: int | None
    height: int | None
    fps: float | None
    size: int = Field(description="bytes")
    date: datetime = Field(description="when the file was last changed")
    added: datetime
    tags: list[str]
    media_url: str
    thumbnail_url: str

    @staticmethod
    def of(video: Video, places: Places) -> VideoModel:
        """Describe a video. Descriptions are cached until the library changes."""
        known = places.told.get(video.id)
        if isinstance(known, VideoModel):
            return known
        made = VideoModel(
            id=video.id,
            title=title(video.path),
            filename=video.path.name,
            folder=places.name(video),
            date=_to_datetime(video.date),
            added=_to_datetime(video.added),
            tags=list(video.tags),
            media_url=f"/v1/videos/{video.id}/media",
            thumbnail_url=thumbnail_url(video.id, (video.duration or 0.0) / 2),
            **{
                name: getattr(video, name)
                for name in ("state", "problem", "duration", "width", "height", "fps", "size")
            },
        )
        if len(places.told) < _TOLD:
            places.told[video.id] = made
        return made


class VideoPage(BaseModel):
    videos: list[VideoModel]
    total: int
    next_cursor: str | None


class AddRequest(Message):
    """A file or folder to add: the name of an allowed root, and a path inside it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"root": "films", "path": "holiday/2024", "tags": ["home"]}]}
    )
    root: Tag = Field(description="as GET /v1/folders names it")
    path: Place = Field(default="", description="path inside the root; '' is the whole root")
    tags: list[Tag] = Field(default_factory=list, max_length=20)
    retry: StrictBool = Field(default=False, description="try again to read files that failed before")


class FolderModel(BaseModel):
    root: str
    path: str
    videos: int = Field(description="number of video files directly in it")


class FolderList(BaseModel):
    folders: list[FolderModel]


class JobModel(BaseModel):
    """A job that adds videos, running or ended."""

    id: int
    what: str
    state: State
    problem: str | None
    files: int
    progress: dict[str, Any] = Field(description="file being read, files_done of files, bytes, speed, seconds left")
    report: dict[str, Any] = Field(description="added, unchanged, moved; failed and damaged files with the reason")
    created: datetime
    events_url: str

    @staticmethod
    def of(job: Job) -> JobModel:
        return JobModel(
            id=job.id,
            what=job.what,
            state=job.state,
            problem=job.problem,
            files=len(job.files),
            progress=job.progress,
            report=job.report,
            created=_to_datetime(job.created),
            events_url=f"/v1/jobs/{job.id}/events",
        )


class JobList(BaseModel):
    jobs: list[JobModel]


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str


class LibraryModel(BaseModel):
    """What the library holds, and the values that filters can take."""

    videos: int
    failed: int
    seconds: float = Field(description="length of all videos, in seconds")
    encoder: str
    folders: list[str]
    tags: list[str]
    roots: list[str] = Field(description="names of the folders that videos may be added from")


class SessionRequest(Message):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"token": "a-secret-of-16-or-more"}]})
    token: Annotated[str, StringConstraints(max_length=1000), Plain]


def thumbnail_url(video: int, time: float) -> str:
    return f"/v1/videos/{video}/thumbnail?time={max(0.0, time):.2f}"


def write_cursor(offset: int) -> str:
    """
    >>> read_cursor(write_cursor(20))
    20
    """
    return f"p{offset}"


def read_cursor(cursor: str | None) -> int:
    """The offset in a cursor, whose form was validated already."""
    return int(cursor[1:]) if cursor else 0


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253402300799.0), UTC)
