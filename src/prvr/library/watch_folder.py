"""A folder that is watched: whether its disks are there, and which of its paths count."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.library.errors import LibraryError
from prvr.library.ingest.files import absolute_path
from prvr.media import BucketPath

_SAMPLE = 100  # videos that are looked for to see whether a folder took the place of a disk


class KnownMounts:
    """Folders with videos that were disks of their own, kept in a file for the next start."""

    def __init__(self, file: Path | None = None):
        """``file``: None if they are known only as long as this process runs."""
        self._file = file
        self.folders = self._read()

    def change(self, *, add: Sequence[Path] = (), remove: Sequence[Path] = ()) -> None:
        if {*add} <= self.folders and self.folders.isdisjoint(remove):
            return
        self.folders = (self._read() | self.folders | {*add}) - {*remove}  # other watchers write there too
        if self._file is not None:
            with suppress(OSError):  # a read-only disk: the watcher cannot add anything either, and says so
                write_whole(self._file, json.dumps({"folders": sorted(map(str, self.folders))}))

    def _read(self) -> set[Path]:
        if self._file is not None:
            with suppress(NotAnObject, KeyError, TypeError):  # there is none yet
                return {Path(each) for each in read_json_object(self._file)["folders"]}
        return set()


class WatchedFolder:
    """One of the folders of a watcher."""

    def __init__(self, path: Path):
        self.path = path
        self.mounts = KnownMounts()
        self.emptied: set[Path] = set()  # folders in it that may be places for disks
        self.problems: dict[Path, str] = {}  # the folder, or a disk in it: why nothing can be said about its files

    @property
    def identity(self) -> frozenset[tuple[Path, int, int]] | None:
        """Changes when a disk is mounted or unmounted here or below; None if there is no folder."""
        found = set()
        for place in {self.path, *self.mounts.folders}:
            with suppress(OSError):
                status = os.stat(place)
                found.add((place, status.st_dev, status.st_ino))
        return frozenset(found) if any(place == self.path for place, *_ in found) else None

    def check(self, videos: Sequence[Path]) -> dict[Path, str]:
        """Which places nothing can be said about, and why. ``videos``: those of the folder that the library holds."""
        try:
            empty = _has_no_entries(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return {self.path: "is not there"}
        except OSError as problem:
            return {self.path: f"cannot be read ({problem.strerror})"}
        if empty and videos:
            return {self.path: "is empty, but the library holds videos of it"}
        away = {}
        for mount in self.mounts.folders:
            if mount.is_relative_to(self.path) and not os.path.ismount(mount):
                inside = paths_below(mount, videos)
                if any(os.path.lexists(video) for video in inside[:_SAMPLE]):  # a plain folder took its place
                    self.mounts.change(remove=[mount])
                elif inside:
                    away[mount] = "is not mounted any more"
        self.emptied = {place for place in self.emptied if _is_empty(place) and paths_below(place, videos)}
        return away | dict.fromkeys(self.emptied, "is empty, but the library holds videos of it")

    def note_emptied(self, path: Path) -> None:
        """A file that this process never saw is gone: if it is gone with all around it, its disk may be away."""
        place = next(folder for folder in path.parents if folder.exists())
        if self.path in place.parents and _is_empty(place):
            self.emptied.add(place)

    def note_mounts(self, videos: Iterable[Path]) -> None:
        """Note which folders with videos are disks of their own."""
        folders = {folder for video in videos for folder in video.parents if folder.is_relative_to(self.path)}
        self.mounts.change(add=[folder for folder in folders if os.path.ismount(folder)])

    def is_away(self, path: Path) -> bool:
        """Whether nothing can be said about a path, because its disk is away."""
        return any(path.is_relative_to(place) for place in self.problems)

    def own_path(self, path: Path) -> Path | None:
        """The path of a file in the folder, as the library names it. None if it is outside or hidden."""
        if not path.is_relative_to(self.path):
            real = self.path.resolve()  # some systems report paths without links
            if not path.is_relative_to(real):
                return None
            path = self.path / path.relative_to(real)
        hidden = any(name.startswith(".") for name in path.relative_to(self.path).parts)
        return None if hidden else path


def _has_no_entries(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _is_empty(folder: Path) -> bool:
    """Whether there is a folder, with nothing in it."""
    try:
        return _has_no_entries(folder)
    except OSError:
        return False


def paths_below(place: Path, paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that are the place or lie below it."""
    prefix = f"{place}".rstrip(os.sep) + os.sep
    return [path for path in paths if path == place or str(path).startswith(prefix)]


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
