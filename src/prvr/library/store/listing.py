"""List a part of the catalogue, its folders and its tags, without reading all of it for each page."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Literal

from prvr.library.store.catalogue import Video, known_tags, read_videos
from prvr.media import VideoFile, video_path

VideoOrder = Literal["added", "newest", "recent", "name", "longest"]
MOST_FOLDERS = 1000  # that a summary names

# Column and direction of each order; then by number, in the same direction.
ORDER_COLUMNS: dict[VideoOrder, tuple[str, bool]] = {  # True: ascending
    "added": ("id", True),
    "newest": ("mtime", False),
    "recent": ("added", False),
    "name": ("path", True),
    "longest": ("duration", False),
}
_BUCKETS = "('s3://', 'gs://', 'az://')"
_IN_BUCKET = f"substr(path, 1, 5) IN {_BUCKETS}"
_NO_SEPARATOR = r"replace(replace(path, '/', ''), '\', '')" if os.sep == "\\" else "replace(path, '/', '')"
_FOLDER = f"rtrim(path, {_NO_SEPARATOR})"  # of a file, with the separator at its end


@dataclass(frozen=True)
class ListRequest:
    """Which videos to list, in which order, and which part of the list."""

    state: Literal["ok", "failed"] | None = None
    """only videos that can be searched, or only files that could not be read"""
    folder: VideoFile | None = None
    """only videos in this folder and the folders in it"""
    tag: str | None = None
    """only videos with this tag"""
    order: VideoOrder = "added"
    """as they were added; the file changed last first; added last first; by path; longest first"""
    offset: int = 0
    """videos to skip"""
    limit: int = 50
    """videos in the part"""


@dataclass(frozen=True)
class VideoList:
    """A part of a list of videos, and how long the list is."""

    videos: list[Video]
    total: int


@dataclass(frozen=True)
class LibrarySummary:
    """How much a library holds, and where."""

    videos: int = 0  # that can be searched
    failed: int = 0  # files that could not be read
    seconds: float = 0.0  # of all videos together
    tags: Mapping[str, int] = field(default_factory=dict)  # with the number of videos, by name
    folders: tuple[VideoFile, ...] = ()  # with videos directly in them, the first thousand in order
    buckets: Mapping[str, int] = field(default_factory=dict)  # addresses of buckets, with the number of videos
    ends: tuple[VideoFile, ...] = ()  # first and last path in order; those on this machine, if there are any


def path_range(folder: VideoFile) -> tuple[str, str]:
    """Paths inside a folder are at least the first text and lower than the second.

    >>> path_range(video_path("s3://films/2024"))
    ('s3://films/2024/', 's3://films/20240')
    """
    separator = "\\" if isinstance(folder, PureWindowsPath) else "/"  # elsewhere a backslash is part of a name
    inside = str(folder).rstrip(separator) + separator
    return inside, inside[:-1] + chr(ord(separator) + 1)


def read_list(db: sqlite3.Connection, request: ListRequest) -> VideoList:
    """Read one part of a list."""
    where, values = _condition(request)
    column, ascending = ORDER_COLUMNS[request.order]
    direction = "ASC" if ascending else "DESC"
    order = f"{column} {direction}, id {direction} LIMIT ? OFFSET ?"
    found = read_videos(db, where, (*values, request.limit, request.offset), order=order)
    (total,) = db.execute(f"SELECT COUNT(*) FROM videos WHERE {where}", values).fetchone()
    return VideoList(found, total)


def _condition(request: ListRequest) -> tuple[str, tuple[object, ...]]:
    conditions: list[str] = []
    values: list[object] = []
    if request.state is not None:
        conditions.append("state = ?")
        values.append(request.state)
    if request.folder is not None:
        conditions.append("path >= ? AND path < ?")
        values += path_range(request.folder)
    if request.tag is not None:  # quotes inside a tag are escaped, so that only a whole tag matches
        conditions.append("instr(tags, ?) > 0")
        values.append(json.dumps(request.tag))
    return " AND ".join(conditions) or "1", tuple(values)


def can_be_stored(path: VideoFile) -> bool:
    """Whether a catalogue can hold a path. Names of files may hold bytes that are not valid UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def inner_folders(db: sqlite3.Connection, folder: VideoFile) -> dict[str, int]:
    """Names of the folders directly in a folder, each with the number of videos in it and below."""
    first, end = path_range(folder)
    rest = "substr(path, :start)"
    found = db.execute(
        f"SELECT substr({rest}, 1, instr({rest}, :separator) - 1) AS name, COUNT(*) FROM videos WHERE path >= :first "
        f"AND path < :end AND state = 'ok' AND instr({rest}, :separator) > 0 GROUP BY name ORDER BY name",
        {"start": len(first) + 1, "separator": first[-1], "first": first, "end": end},
    )
    return dict(found.fetchall())


def summarise_catalogue(db: sqlite3.Connection) -> LibrarySummary:
    """Count what the catalogue holds."""
    states = db.execute("SELECT state, COUNT(*), SUM(duration) FROM videos GROUP BY state").fetchall()
    counts = {state: (count, seconds or 0.0) for state, count, seconds in states}
    tags: Counter[str] = Counter()
    for written, count in db.execute("SELECT tags, COUNT(*) FROM videos WHERE state = 'ok' GROUP BY tags"):
        tags.update(dict.fromkeys(known_tags(written), count))
    folders = db.execute(
        f"SELECT DISTINCT {_FOLDER} FROM videos WHERE state = 'ok' ORDER BY 1 LIMIT {MOST_FOLDERS}"
    ).fetchall()
    buckets = db.execute(
        "SELECT substr(path, 1, 4 + instr(substr(path, 6), '/')) AS bucket, COUNT(*) FROM videos "
        f"WHERE {_IN_BUCKET} AND state = 'ok' GROUP BY bucket ORDER BY bucket"
    ).fetchall()
    ends = db.execute(f"SELECT MIN(path), MAX(path) FROM videos WHERE NOT {_IN_BUCKET}").fetchone()
    if ends[0] is None:
        ends = db.execute("SELECT MIN(path), MAX(path) FROM videos").fetchone()
    videos, seconds = counts.get("ok", (0, 0.0))
    return LibrarySummary(
        videos=videos,
        failed=counts.get("failed", (0, 0.0))[0],
        seconds=seconds,
        tags=dict(sorted(tags.items())),
        folders=tuple(video_path(folder.rstrip(f"/{os.sep}") or "/") for (folder,) in folders),
        buckets=dict(buckets),
        ends=distinct_paths(ends),
    )


def distinct_paths(paths: Iterable[str | None]) -> tuple[VideoFile, ...]:
    """Paths without repetitions."""
    return tuple(video_path(path) for path in dict.fromkeys(paths) if path is not None)
