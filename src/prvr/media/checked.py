"""Open the file that was checked, and not another one that took its name in between.

A name is resolved once, when the file is opened. What is then checked is the open file: that it is a regular file, that
its size and time are those that are expected, and that it lies below a folder although its name may be a link. FFmpeg
reads from the open file, and not by its name.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from prvr.media.bucket_files import FileStatus
from prvr.media.buckets import BucketPath, VideoFile
from prvr.media.errors import MediaError

ONLY_BELOW = "PRVR_ONLY_BELOW"  # a JSON list of folders: this process, and those it starts, read no videos elsewhere
_OPEN_FILES = Path("/proc/self/fd")  # on Linux: where each open file really is, by its number


class FileChanged(MediaError):
    """A file is not the one that was expected under its name."""


class ExpectedFile(NamedTuple):
    """What must be true of a file when it is opened."""

    size: int | None = None
    mtime: int | None = None  # nanoseconds
    below: tuple[str, ...] = ()  # real folders, one of which must hold it; empty: anywhere


_expected: dict[str, ExpectedFile] = {}


@contextmanager
def expecting(files: Mapping[str, ExpectedFile]) -> Iterator[None]:
    """Within a ``with`` statement, open these files, by path, only as they are expected. For one task at a time."""
    _expected.update(files)
    try:
        yield
    finally:
        _expected.clear()


def expected_of(path: VideoFile) -> ExpectedFile | None:
    """What is expected of a file; None where everything is allowed."""
    found = _expected.get(str(path))
    if found is None and isinstance(path, Path) and ONLY_BELOW in os.environ:
        return ExpectedFile(below=tuple(json.loads(os.environ[ONLY_BELOW])))
    return found


def open_checked(path: VideoFile, expected: ExpectedFile | None = None) -> BinaryIO:
    """Open a file to read, and check that it is what is expected. It is closed with the last reference to it.

    Args:
        path: the file.
        expected: what must be true of it, besides being a regular file; by default what ``expected_of`` says.

    Raises:
        FileChanged: it is another file, or none that holds data.
        OSError: it cannot be opened.
    """
    expected = expected or expected_of(path) or ExpectedFile()
    status: os.stat_result | FileStatus
    if isinstance(path, BucketPath):
        found = path.stat()
        file: BinaryIO = path.open(status=found)
        status = found
    else:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        file, status = os.fdopen(handle, "rb", buffering=0), os.fstat(handle)
        if expected.below and not any(open_place(handle, path).is_relative_to(each) for each in expected.below):
            raise FileChanged(path, "leads out of the folders that videos may come from")
    if not stat.S_ISREG(status.st_mode):
        raise FileChanged(path, "is not a regular file (it is a pipe or a device)")
    if expected.size not in (None, status.st_size) or expected.mtime not in (None, status.st_mtime_ns):
        raise FileChanged(path, "has changed since it was added")
    return file


def open_place(handle: int, path: Path) -> Path:
    """Where an open file or folder really is, without links; ``path`` is the name by which it was opened."""
    if _OPEN_FILES.exists():
        return Path(os.readlink(_OPEN_FILES / str(handle)))
    real, status = path.resolve(), os.fstat(handle)
    there = os.stat(real, follow_symlinks=False)
    if (there.st_dev, there.st_ino) != (status.st_dev, status.st_ino):
        raise FileChanged(path, "was replaced while it was opened")
    return real


def for_ffmpeg(path: VideoFile, file: BinaryIO) -> tuple[str, Any]:
    """An open file as FFmpeg can read it: the protocols that it may use, and the source."""
    if isinstance(path, Path) and _OPEN_FILES.exists():
        return "file", str(_OPEN_FILES / str(file.fileno()))
    return "none", file
