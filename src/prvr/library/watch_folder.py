"""A folder that is watched: whether its disk is there, and which of its paths count."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.ingest.files import absolute_path
from prvr.media import BucketPath


class WatchedFolder:
    """One of the folders of a watcher."""

    def __init__(self, path: Path):
        self.path = path
        self.problem: str | None = None  # why nothing can be said about its files
        self._mounts: set[Path] = set()  # it and folders below it that were disks of their own

    @property
    def identity(self) -> tuple[int, int] | None:
        """Changes when another disk is mounted there; None if there is no folder."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def check(self, *, has_videos: bool) -> str | None:
        """What is wrong with the folder. ``has_videos``: whether the library holds any of it."""
        try:
            with os.scandir(self.path) as entries:
                empty = next(entries, None) is None
        except (FileNotFoundError, NotADirectoryError):
            return "is not there"
        except OSError as problem:
            return f"cannot be read ({problem.strerror})"
        if not self._is_mounted(self.path):
            return "is there, but its disk is not mounted any more"
        return "is empty, but the library holds videos of it" if empty and has_videos else None

    def note_mounts(self, videos: Iterable[Path]) -> None:
        """Note which folders with videos are disks of their own."""
        folders = {folder for video in videos for folder in video.parents if folder.is_relative_to(self.path)}
        self._mounts |= {folder for folder in {self.path, *folders} if os.path.ismount(folder)}

    def is_away(self, video: Path) -> bool:
        """Whether the disk of a video inside the folder was unmounted."""
        return any(not self._is_mounted(folder) for folder in video.parents)

    def _is_mounted(self, folder: Path) -> bool:
        return folder not in self._mounts or os.path.ismount(folder)

    def own_path(self, path: Path) -> Path | None:
        """The path of a file in the folder, as the library names it. None if it is outside or hidden."""
        if not path.is_relative_to(self.path):
            real = self.path.resolve()  # some systems report paths without links
            if not path.is_relative_to(real):
                return None
            path = self.path / path.relative_to(real)
        hidden = any(name.startswith(".") for name in path.relative_to(self.path).parts)
        return None if hidden else path


def watched_folders(folders: Iterable[str | Path], *, must_exist: bool = False) -> list[WatchedFolder]:
    """The folders to watch, without those inside others. ``must_exist``: refuse those whose disk may be away.

    Raises:
        LibraryError: one of them cannot be watched.
    """
    paths = []
    for given in folders:
        path = absolute_path(given)
        if isinstance(path, BucketPath):
            raise LibraryError(
                f"{given} is in a bucket, which cannot be watched: run `prvr library add {given}` from time to time"
            )
        if path.exists() and not path.is_dir():
            raise LibraryError(f"{given} is a file: name the folder that it is in")
        if must_exist and not path.exists():
            raise LibraryError(f"{given} does not exist: name a folder with videos")
        paths.append(path)
    if not paths:
        raise LibraryError("no folder was given: name the folders to watch")
    outer = [path for path in dict.fromkeys(paths) if not any(each in path.parents for each in paths)]
    return [WatchedFolder(path) for path in outer]
