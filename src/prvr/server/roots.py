"""Folders as clients see them: those that videos may be added from, and those of the library's videos.

Clients name folders relative to a root. They never see an absolute path of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prvr.errors import printable
from prvr.library import VIDEO_SUFFIXES, Video, find_videos
from prvr.media import BucketPath, ExpectedFile, VideoFile, open_place, subtitle_files, video_path
from prvr.server.problems import Problem

_MAX_LISTED = 500  # folders of one level
_LIST_FOLDERS = "List the folders with GET /v1/folders."


@dataclass(frozen=True)
class Folder:
    """A folder inside an allowed root."""

    root: str
    path: str  # "" is the root itself
    videos: int  # video files directly in it


@dataclass(frozen=True)
class FilesToAdd:
    """Video files inside a root, and how many were left out: a link leads out of the root, or cannot be followed."""

    files: tuple[VideoFile, ...]
    left_out: int


class Roots:
    """The folders that videos may be added from, by name."""

    def __init__(self, folders: Iterable[VideoFile]):
        self.by_name: dict[str, VideoFile] = {}
        for folder in folders:
            real, number = _real(folder), 1
            name = printable(real.name) or "root"
            while (name if number == 1 else f"{name}-{number}") in self.by_name:
                number += 1
            self.by_name[name if number == 1 else f"{name}-{number}"] = real

    def resolve(self, root: str, path: str) -> VideoFile:
        """A file or folder inside a root.

        Raises:
            Problem: if it does not exist, or if its name or a link leads out of the root.
        """
        if root not in self.by_name:
            names = ", ".join(sorted(self.by_name))
            remedy = f"Choose one of: {names}." if names else "Start the server with --allow-root DIR."
            raise Problem(403, f"Videos may not be added from {root!r}.", remedy)
        base = self.by_name[root]
        parts = PurePosixPath(path).parts
        if "\\" in path or "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
            raise _outside(root)
        try:
            joined: VideoFile = base.joinpath(*parts)
            real = _real(joined)
            if not real.is_relative_to(base):
                raise _outside(root)
            exists = real.is_dir() or real.exists()
        except (OSError, ValueError, RuntimeError):  # links in a circle, names that are too long
            raise Problem(404, "There is no such folder or file.", _LIST_FOLDERS) from None
        if not exists:
            raise Problem(404, f"There is no such folder or file in {root!r}.", _LIST_FOLDERS)
        return joined

    @property
    def on_disk(self) -> tuple[str, ...]:
        """Those that are not in a bucket, without links."""
        return tuple(str(root) for root in self.by_name.values() if not isinstance(root, BucketPath))

    def expected(self, video: Video) -> ExpectedFile:
        """What must be true of a video's file when it is opened: it is as it was added, and inside its root."""
        inside = any(map(video.path.is_relative_to, self.on_disk))
        return ExpectedFile(video.size, video.mtime, self.on_disk if inside else ())

    def files(self, root: str, path: str) -> FilesToAdd:
        """All videos in a folder. A video is left out if it or its subtitles are not in the root, as links may lead."""
        folder = self.resolve(root, path)
        videos = find_videos([folder])
        inside = tuple(video for video in videos if _is_inside(video, self.by_name[root]))
        return FilesToAdd(inside, len(videos) - len(inside))

    def folders(self, root: str, path: str) -> list[Folder]:
        """The folder itself, then the folders directly in it."""
        folder = self.resolve(root, path)
        if not folder.is_dir():
            raise Problem(404, "This is a file, not a folder.", "Add the file itself with POST /v1/videos.")
        try:
            own, inner = self._listed(root, folder)
        except OSError:
            raise Problem(403, "This folder cannot be read.", "Give the server's user permission to read it.") from None
        prefix = PurePosixPath(path)
        listed = [Folder(root, "" if str(prefix) == "." else str(prefix), own)]
        return listed + [Folder(root, str(prefix / name), videos) for name, videos in inner.items()]

    def _listed(self, root: str, folder: VideoFile) -> tuple[int, dict[str, int]]:
        """Videos directly in a folder, and in each folder in it. What is read is the open folder, not its name."""
        if isinstance(folder, BucketPath) or os.scandir not in os.supports_fd:  # as on Windows
            return _listed_by_name(folder)
        with _opened_folder(folder) as handle:
            if not open_place(handle, folder).is_relative_to(self.by_name[root]):
                raise _outside(root)
            with os.scandir(handle) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            inner = {}
            for name in _shown(name for name, is_folder in names.items() if is_folder):
                inner[name] = 0
                with suppress(OSError), _opened_folder(name, handle) as place:
                    inner[name] = _count_videos(os.listdir(place))
            return _count_videos(names), inner


@contextmanager
def _opened_folder(name: str | Path, inside: int | None = None) -> Iterator[int]:
    """An open folder; one inside another open folder must not be a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if inside is not None else 0)
    handle = os.open(name, flags, dir_fd=inside)
    try:
        yield handle
    finally:
        os.close(handle)


def _real(path: VideoFile) -> VideoFile:
    """Without links, which a bucket does not have."""
    return path if isinstance(path, BucketPath) else path.resolve()


def _is_inside(video: VideoFile, base: VideoFile) -> bool:
    """Whether a video and its subtitles stay in a root when links are followed."""
    try:
        return all(_real(file).is_relative_to(base) for file in (video, *subtitle_files(video)))
    except (OSError, RuntimeError):  # links in a circle, or a folder that cannot be read
        return False


def _listed_by_name(folder: VideoFile) -> tuple[int, dict[str, int]]:
    found: list[VideoFile] = list(folder.iterdir())
    inner = _shown(path.name for path in found if path.is_dir())
    videos = {name: _count_videos(path.name for path in (folder / name).iterdir()) for name in inner}
    return _count_videos(path.name for path in found), videos


def _shown(folders: Iterable[str]) -> list[str]:
    """The first folders by name, without hidden ones and those that clients cannot name (``Roots.resolve``)."""
    return sorted(name for name in folders if not name.startswith(".") and _can_be_named(name))[:_MAX_LISTED]


def _can_be_named(name: str) -> bool:
    """Whether a client can send this name: it is text, and has no backslash.

    >>> _can_be_named("café 100% #1?"), _can_be_named("caf\\udce9"), _can_be_named("a\\\\b")
    (True, False, False)
    """
    return "\\" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _count_videos(names: Iterable[str]) -> int:
    return sum(PurePosixPath(name).suffix.lower() in VIDEO_SUFFIXES for name in names)


def _outside(root: str) -> Problem:
    return Problem(403, f"This path leads out of {root!r}.", "Name a file or folder inside it, without '..'.")


class LibraryFolders:
    """Folders of the library's videos, named relative to the folder that holds them all.

    Where some are on this machine and others in a bucket, those in buckets are named by their address.
    """

    def __init__(self, paths: Iterable[VideoFile]):
        """``paths``: of all videos, or only the first and the last in order."""
        parents = {path.parent for path in paths}
        here = {str(parent) for parent in parents if not isinstance(parent, BucketPath)}
        shared = os.path.commonpath(here or map(str, parents)) if parents else "/"
        self.base = video_path(shared) if "/" in shared else Path("/")  # no folder holds two buckets

    def name(self, path: VideoFile) -> str:
        """The name of a video's folder; "" is the folder that holds all videos."""
        return self.folder_name(path.parent)

    def folder_name(self, folder: VideoFile) -> str:
        """The name of a folder; "" is the folder that holds all videos."""
        if not folder.is_relative_to(self.base):
            return str(folder) if isinstance(folder, BucketPath) else ""
        inner = folder.relative_to(self.base).as_posix()
        return "" if inner == "." else inner

    def path(self, name: str) -> VideoFile:
        """The path of a folder, to compare with paths in the catalogue; it is never opened."""
        if name.startswith(("s3://", "gs://", "az://")):
            return BucketPath(name)
        return self.base / PurePosixPath(name).as_posix().lstrip("/")
