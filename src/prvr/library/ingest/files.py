"""Find video files, and tell whether a file has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from prvr.library.errors import LibraryError
from prvr.library.store.listing import can_be_stored
from prvr.media import BucketPath, MediaError, VideoFile, open_checked, subtitle_files, video_path

# Suffixes of the files that are taken from a folder. A file given by name is tried with any suffix.
VIDEO_SUFFIXES = frozenset((
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".wmv", ".flv", ".mpg", ".mpeg", ".m2ts", ".mts", ".ts", ".vob",
    ".ogv", ".3gp", ".3g2", ".asf", ".divx", ".mxf", ".gif",
))  # fmt: skip
NOT_TEXT = "has a name that is not valid UTF-8: rename it"  # to the system, names are bytes
_SAMPLE_BYTES = 1 << 18  # read at each of three places
_PIECE_BYTES = 1 << 20  # of a whole file that are hashed at a time
_WHOLE = "w"  # begins digests of whole files


@dataclass(frozen=True)
class SourceFile:
    """A video file with its size and modification time."""

    path: VideoFile
    size: int
    mtime: int  # nanoseconds

    @staticmethod
    def of(path: VideoFile) -> SourceFile:
        try:
            status = path.stat()
        except OSError as problem:
            raise MediaError(path, f"cannot be read ({problem.strerror})") from problem
        if stat.S_ISDIR(status.st_mode):  # ``find_videos`` returns only folders that it could not read
            raise MediaError(path, "is a folder that cannot be read: permission was denied")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device might never end
            raise MediaError(path, "is not a regular file but a pipe, a socket or a device")
        if not can_be_stored(path):
            raise MediaError(path, NOT_TEXT)
        return SourceFile(path, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Fingerprint:
    """What identifies the content of a file, computed once per add."""

    digest: str  # of the video
    subtitles: str  # of the subtitle files beside it

    @staticmethod
    def of(path: VideoFile, stop: Event | None = None) -> Fingerprint:
        return Fingerprint(content_digest(path, stop), subtitle_signature(path))


def find_videos(paths: Iterable[str | VideoFile]) -> list[VideoFile]:
    """The named files, and all videos in the named folders and below: absolute paths, each once, in order.

    Hidden files and folders are left out. A folder that cannot be read is returned like a file; adding it reports why.
    """
    found: dict[VideoFile, None] = {}
    named = [(given, absolute_path(given)) for given in paths]
    for _, path in named:
        if isinstance(path, BucketPath):
            path.forget()
    for given, path in named:
        if path.is_dir():
            found.update(dict.fromkeys(_videos_in(path)))
        elif not (path.is_file() if isinstance(path, BucketPath) else os.path.lexists(path)):
            raise LibraryError(f"{given} does not exist: name a video file or a folder")
        else:
            found[path] = None
    return list(found)


def absolute_path(path: str | VideoFile) -> VideoFile:
    """The absolute form of a path, whether it exists or not. Links are not followed."""
    path = video_path(path)
    return path if isinstance(path, BucketPath) else Path(os.path.abspath(path.expanduser()))


def _videos_in(folder: VideoFile) -> list[VideoFile]:
    found: list[VideoFile] = []
    if isinstance(folder, BucketPath):
        for film in sorted(folder.files_below(), key=lambda film: (film.parent, film)):
            hidden = any(name.startswith(".") for name in film.relative_to(folder).parts)
            if film.suffix.lower() in VIDEO_SUFFIXES and not hidden:
                found.append(film)
        return found
    for place, folders, files in os.walk(folder, onerror=lambda problem: found.append(Path(problem.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place) / name
            if path.suffix.lower() in VIDEO_SUFFIXES and not name.startswith("."):
                found.append(path)
    return found


def content_digest(path: VideoFile, stop: Event | None = None) -> str:
    """A hash of a file's content, by which a video is recognised that was moved or touched.

    Of a large file in a bucket, which would be downloaded for it, only the size, the beginning, the middle and the end
    count.

    Raises:
        MediaError: the file cannot be read, or ``stop`` was set meanwhile.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open_checked(path) as file:
        if not isinstance(path, BucketPath) or size <= 3 * _SAMPLE_BYTES:
            whole = hashlib.sha256()
            while piece := file.read(_PIECE_BYTES):
                whole.update(piece)
                if stop is not None and stop.is_set():
                    raise MediaError(path, "was not read to its end")
            return _WHOLE + whole.hexdigest()
        for place in (0, max(0, size // 2 - _SAMPLE_BYTES // 2), max(0, size - _SAMPLE_BYTES)):
            file.seek(place)
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def is_whole_digest(digest: str) -> bool:
    """Whether a digest covers every byte. Those of large files in buckets, and of older libraries, do not."""
    return digest.startswith(_WHOLE)


# What ``Video.subtitles`` says of lines that come from no subtitle file, and of there being none. The signature of
# files without a line may follow. No name of a file begins with a slash.
INSIDE = "/inside"  # from text tracks inside the video
NO_LINES = "/none"  # there are files, but no line in them


def same_subtitles(stored: str, signature: str) -> bool:
    """Whether the subtitle files beside a video (``signature``) are those that its lines were read from.

    >>> same_subtitles("/speech whisper-tiny, en|a.srt:0:7", "a.srt:0:7"), same_subtitles("/inside", "a.srt:0:7")
    (True, False)
    """
    return (stored.partition("|")[2] if stored.startswith("/") else stored) == signature


def lacks_lines(stored: str) -> bool:
    """Whether a video has no lines, and nobody has listened for them yet."""
    return stored == "" or stored.startswith(NO_LINES)


def subtitle_signature(path: VideoFile) -> str:
    """Names, sizes and modification times of the subtitle files beside a video."""
    return "|".join(f"{each.name}:{each.stat().st_size}:{each.stat().st_mtime_ns}" for each in subtitle_files(path))
