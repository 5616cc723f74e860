"""Requests and responses of the API, as pydantic models."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints

from prvr.library import Video
from prvr.media import VideoFile
from prvr.server.jobs import Job, JobState
from prvr.server.ranges import title
from prvr.server.roots import LibraryFolders

MAX_OFFSET = 99_999  # the last result that paging reaches
_MAX_CACHED = 10_000  # descriptions of videos kept in memory


def _check_unicode(text: str) -> str:
    """Refuse text with surrogates, which cannot be stored or sent."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("contains characters that are not valid Unicode")
    return text


def _strip(text: str) -> str:
    """Remove blanks around a text, and refuse a text of blanks only."""
    if not (stripped := text.strip()):
        raise ValueError("contains only blanks")
    return stripped


def _check_number(value: object) -> object:
    """Refuse a string or a boolean where a number is expected."""
    if isinstance(value, str | bool):
        raise ValueError("is not a number")
    return value


def _check_time(value: object) -> object:
    """Refuse a number where a time is expected."""
    if not isinstance(value, str):
        raise ValueError("is not a time: write it as 2024-05-31T18:00:00Z")
    return value


_ValidUnicode = AfterValidator(_check_unicode)
_Stripped = AfterValidator(_strip)
_NOT_BLANK = r"^[^\x00]*[^\s\x00][^\x00]*$"  # no NUL, and not only blanks; part of the schema, so that clients know
Integer = Annotated[int, BeforeValidator(_check_number)]
Real = Annotated[float, BeforeValidator(_check_number)]
Seconds = Annotated[float, Field(ge=0, le=1e9), BeforeValidator(_check_number)]
Time = Annotated[datetime, BeforeValidator(_check_time)]
QueryText = Annotated[
    str, StringConstraints(min_length=1, max_length=500, pattern=_NOT_BLANK), _ValidUnicode, _Stripped
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_NOT_BLANK), _ValidUnicode, _Stripped]
RelativePath = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$"), _ValidUnicode]
Label = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$"), _ValidUnicode]
Cursor = Annotated[str, StringConstraints(pattern=r"^p[0-9]{1,5}$"), Field(examples=["p10"])]
ListCursor = Annotated[str, StringConstraints(pattern=r"^p[0-9]{1,9}$"), Field(examples=["p50"])]
Id = Annotated[int, Field(ge=1, le=2**53)]


class RequestModel(BaseModel):
    """The body of a request. Unknown fields are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class VideoModel(BaseModel):
    """A video file of the library."""

    id: int
    title: str
    filename: str
    name: str = Field(description="folder and file name, to show to people")
    folder: str = Field(
        description="relative to the folder that holds all videos of the library; '' is that folder. The address, for "
        "videos in a bucket where others are not"
    )
    state: str = Field(description="`ok` or `failed`")
    problem: str | None = Field(description="why the file could not be read, or which part of it")
    duration: float | None = Field(description="seconds")
    width: int | None
    height: int | None
    fps: float | None
    size: int = Field(description="bytes")
    date: datetime = Field(description="time of the file's last change")
    added: datetime = Field(description="time when it was added to the library")
    tags: list[str]
    media_url: str
    thumbnail_url: str

    @staticmethod
    def of(video: Video, folder: str, name: str) -> VideoModel:
        return VideoModel(
            id=video.id,
            title=title(video.path),
            filename=video.path.name,
            name=name,
            folder=folder,
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


class VideoDescriber:
    """Describes the videos of one version of a library. Keeps the descriptions, because searches repeat them."""

    def __init__(self, paths: Iterable[VideoFile]):
        """``paths``: of all videos, or only the first and the last in order."""
        self.folders = LibraryFolders(paths)
        self._cache: dict[int, VideoModel] = {}

    def describe(self, video: Video) -> VideoModel:
        model = self._cache.get(video.id)
        if model is None:
            model = VideoModel.of(video, self.folders.name(video.path), self.name(video.path))
            if len(self._cache) < _MAX_CACHED:
                self._cache[video.id] = model
        return model

    def name(self, path: VideoFile) -> str:
        """Folder and file name, as clients see them."""
        folder = self.folders.name(path)
        return f"{folder}/{path.name}" if folder else path.name


class VideoPage(BaseModel):
    """One page of the list of videos."""

    videos: list[VideoModel]
    total: int
    next_cursor: str | None


class VideoEdit(RequestModel):
    """What to change about a video: its tags."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"add_tags": ["home"], "remove_tags": ["unsorted"]}]}
    )
    add_tags: list[Name] = Field(default_factory=list, max_length=20, description="tags to attach")
    remove_tags: list[Name] = Field(default_factory=list, max_length=20, description="tags to take off")


class LibraryFolderModel(BaseModel):
    """A folder of the library's videos."""

    name: str = Field(description="the last part of its path")
    folder: str = Field(description="as in `folder` of a video and of filters")
    videos: int = Field(description="number of videos in it and in the folders in it")


class LibraryFolderList(BaseModel):
    """The folders directly in a folder."""

    folders: list[LibraryFolderModel]


class ExampleList(BaseModel):
    """Searches that the library answers well."""

    examples: list[str] = Field(description="sentences; empty if none was found")


class AddRequest(RequestModel):
    """A file or folder to add: the name of an allowed root, and a path inside it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"root": "films", "path": "holiday/2024", "tags": ["home"]}]}
    )
    root: Name = Field(description="name of an allowed root, from GET /v1/folders")
    path: RelativePath = Field(default="", description="path inside the root; '' is the whole root")
    tags: list[Name] = Field(default_factory=list, max_length=20, description="tags for the added videos")
    retry: StrictBool = Field(default=False, description="try files again that could not be read before")


class FolderModel(BaseModel):
    """A folder that videos may be added from."""

    root: str
    path: str
    videos: int = Field(description="number of video files directly in the folder")


class FolderList(BaseModel):
    """Folders that videos may be added from."""

    folders: list[FolderModel]


class JobModel(BaseModel):
    """A job that adds videos."""

    id: int
    what: str = Field(description="root and path of the request")
    state: JobState
    problem: str | None = Field(description="why the job failed or was stopped")
    files: int = Field(description="number of files to add")
    progress: dict[str, Any] = Field(
        description="the file being read (`path`), `files_done` of `files`, `bytes_done` of `bytes`, "
        "`speed` (times real time) and seconds `left`"
    )
    report: dict[str, Any] = Field(
        description="numbers of `added`, `unchanged` and `moved` files; `failed` and `damaged` files with reasons"
    )
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
    """Jobs, newest first."""

    jobs: list[JobModel]


class Health(BaseModel):
    """The server is alive; and whether all of its library can be read."""

    status: Literal["ok", "damaged"] = Field("ok", description="damaged: parts of the library are left out of searches")
    message: str = Field("", description="a sentence about the damage")
    version: str


class LibraryModel(BaseModel):
    """What the library holds, and the values that filters can take."""

    videos: int = Field(description="number of videos that can be searched")
    failed: int = Field(description="number of files that could not be read")
    seconds: float = Field(description="total length of the videos, in seconds")
    encoder: str
    limits: str | None = Field(description="what the encoder cannot do, for people; null if there is nothing to say")
    folders: list[str] = Field(description="folders with videos directly in them, at most 1000")
    tags: list[str]
    writable: bool = Field(description="whether videos can be tagged and removed")
    roots: list[str] = Field(description="names of the folders that videos may be added from")


class SessionRequest(RequestModel):
    """The token of the server."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"token": "a-secret-of-16-or-more"}]})
    token: Annotated[str, StringConstraints(max_length=1000), _ValidUnicode]


def thumbnail_url(video: int, time: float) -> str:
    """The address of the picture at a time in seconds."""
    return f"/v1/videos/{video}/thumbnail?time={max(0.0, time):.2f}"


def write_cursor(offset: int) -> str:
    """The cursor of the page that begins at an offset.

    >>> read_cursor(write_cursor(20))
    20
    """
    return f"p{offset}"


def read_cursor(cursor: str | None) -> int:
    """The offset of a cursor that was validated; 0 without a cursor."""
    return int(cursor[1:]) if cursor else 0


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253402300799.0), UTC)
