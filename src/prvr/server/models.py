"""What travels over HTTP. Only this edge knows pydantic; the rooms behind it have dataclasses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints

from prvr.library import Video
from prvr.server.jobs import Job, State
from prvr.server.ranges import title
from prvr.server.roots import Places

DEEPEST = 99_999  # results that paging reaches
_TOLD = 10_000  # videos whose description is kept ready


def _plain(text: str) -> str:
    """Text that can be stored and sent: no half characters."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds characters that are none")
    return text


def _bare(text: str) -> str:
    """Without the blanks around it; what a pattern takes for a letter may still be one."""
    if not (bare := text.strip()):
        raise ValueError("holds nothing but blanks")
    return bare


def _number(value: object) -> object:
    """JSON has numbers: a word that looks like one is a mistake."""
    if isinstance(value, str | bool):
        raise ValueError("is no number")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("is no time: write it as 2024-05-31T18:00:00Z")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
Real = Annotated[float, BeforeValidator(_number)]
Seconds = Annotated[float, Field(ge=0, le=1e9), BeforeValidator(_number)]
Time = Annotated[datetime, BeforeValidator(_text)]
Plain = AfterValidator(_plain)
Bare = AfterValidator(_bare)
_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"  # no NUL, and not only blanks: said in the schema, so that programs know
Words = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_SOMETHING), Plain, Bare]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_SOMETHING), Plain, Bare]
Place = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$"), Plain]
Cursor = Annotated[str, StringConstraints(pattern=r"^p[0-9]{1,5}$"), Field(examples=["p10"])]
Number = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """Only known fields, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class VideoModel(BaseModel):
    """A file the library knows."""

    id: int
    title: str
    filename: str
    folder: str = Field(description="from the folder that holds all videos of the library; '' is that folder")
    state: str = Field(description="ok, or failed")
    problem: str | None = Field(description="why it failed, or what is missing of it")
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
        """Remembered with the names of places, which live as long as the library stays as it is."""
        known = places.told.get(video.id)
        if isinstance(known, VideoModel):
            return known
        made = VideoModel(
            id=video.id,
            title=title(video.path),
            filename=video.path.name,
            folder=places.name(video),
            date=_moment(video.date),
            added=_moment(video.added),
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
    """A file or a folder to add, by the name of an allowed root and the place in it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"root": "films", "path": "holiday/2024", "tags": ["home"]}]}
    )
    root: Tag = Field(description="as GET /v1/folders names it")
    path: Place = Field(default="", description="inside the root; '' is all of it")
    tags: list[Tag] = Field(default_factory=list, max_length=20)
    retry: StrictBool = Field(default=False, description="try files again that failed before")


class FolderModel(BaseModel):
    root: str
    path: str
    videos: int = Field(description="video files right in it")


class FolderList(BaseModel):
    folders: list[FolderModel]


class JobModel(BaseModel):
    """Adding, while it goes on and afterwards."""

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
            created=_moment(job.created),
            events_url=f"/v1/jobs/{job.id}/events",
        )


class JobList(BaseModel):
    jobs: list[JobModel]


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str


class LibraryModel(BaseModel):
    """What can be searched, and by what it can be filtered."""

    videos: int
    failed: int
    seconds: float = Field(description="of video")
    encoder: str
    folders: list[str]
    tags: list[str]
    roots: list[str] = Field(description="where videos may be added from")


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
    """Where a page begins; the form was checked when it came in."""
    return int(cursor[1:]) if cursor else 0


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253402300799.0), UTC)
