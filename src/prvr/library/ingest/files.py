"""Which files to add, and how to tell whether a file has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.media import subtitle_files
from prvr.media.errors import MediaError

# What is taken from a folder; a file that is named is tried whatever it is called.
VIDEO_SUFFIXES = frozenset((
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".wmv", ".flv", ".mpg", ".mpeg", ".m2ts", ".mts", ".ts", ".vob",
    ".ogv", ".3gp", ".3g2", ".asf", ".divx", ".mxf", ".gif",
))  # fmt: skip
_SAMPLE = 1 << 18  # bytes read at each of three places


@dataclass(frozen=True)
class Source:
    """A file as it is now."""

    path: Path
    size: int
    mtime: int  # nanoseconds

    @staticmethod
    def of(path: Path) -> Source:
        try:
            found = path.stat()
        except OSError as problem:
            raise MediaError(path, f"cannot be looked at ({problem.strerror})") from problem
        if stat.S_ISDIR(found.st_mode):  # of folders, only those that could not be read come here
            raise MediaError(path, "is a folder that cannot be read: permission was denied")
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, a device read without end
            raise MediaError(path, "is no file but a pipe, a socket or a device")
        if not _is_text(str(path)):
            raise MediaError(path, "has a name that is not text in UTF-8: rename it")
        return Source(path, found.st_size, found.st_mtime_ns)


def _is_text(name: str) -> bool:
    """Names are bytes to the system; those that are no text can neither be listed nor searched for."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_videos(paths: Iterable[str | Path]) -> list[Path]:
    """Named files, and the videos in named folders and the folders in them; absolute, each once, in order.

    Hidden files and folders are left out. A folder that cannot be read stands among the videos: adding it says why.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = absolute(given)
        if path.is_dir():
            found.update(dict.fromkeys(_in_folder(path)))
        elif not os.path.lexists(path):
            raise LibraryError(f"{given} is not there: neither a file nor a folder")
        else:
            found[path] = None
    return list(found)


def absolute(path: str | Path) -> Path:
    """One name for one place, whether it still exists or not; links are kept as they are named."""
    return Path(os.path.abspath(Path(path).expanduser()))


def _in_folder(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=lambda problem: found.append(Path(problem.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place) / name
            if path.suffix.lower() in VIDEO_SUFFIXES and not name.startswith("."):
                found.append(path)
    return found


def digest(path: Path) -> str:
    """A hash of a file's size, beginning, middle and end: enough to recognise a video that was moved."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in (0, max(0, size // 2 - _SAMPLE // 2), max(0, size - _SAMPLE)):
            file.seek(place)
            found.update(file.read(_SAMPLE))
    return found.hexdigest()


def subtitle_signature(path: Path) -> str:
    """Which subtitle files lie beside a video, and when they were changed."""
    return "|".join(f"{each.name}:{each.stat().st_size}:{each.stat().st_mtime_ns}" for each in subtitle_files(path))
