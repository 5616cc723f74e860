"""What is being done to a library right now: watching folders, adding, reindexing.

Whoever works on a library announces it. For a library in a folder the announcement is a small file in ``activity/``,
refreshed every few seconds and deleted at the end, so that other processes see it too. What a killed process leaves
there is ignored after a while. For a lake, a process sees only what it does itself.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.library.ingest.add import AddProgress
from prvr.media import StorageError, VideoFile, video_path

ActivityKind = Literal["watch", "add", "reindex"]
ActivityState = Literal["waiting", "indexing"]
_EVERY = 1.0  # seconds between two looks at whether there is something new to write
_REFRESH = 5.0  # seconds after which an announcement is written again though nothing has changed
_STALE = 20.0  # seconds after which an announcement that was not refreshed is ignored
_numbers = itertools.count()
_here: dict[tuple[str, int], LibraryActivity] = {}  # what this process does: library and number of the announcement


@dataclass(frozen=True)
class LibraryActivity:
    """What one process is doing to a library."""

    what: ActivityKind
    folders: tuple[str, ...]  # that are watched or added from
    state: ActivityState = "waiting"
    done: int = 0  # files of the current work
    total: int = 0
    file: str | None = None  # that is being indexed
    message: str = ""  # why it waits, if it should not
    process: int = field(default_factory=os.getpid)
    machine: str = field(default_factory=platform.node)
    since: float = field(default_factory=time.time)

    def describe(self) -> str:
        """One line for people."""
        doing = {"watch": "watching", "add": "adding", "reindex": "reindexing"}[self.what]
        folders = f" {', '.join(self.folders)}" if self.folders else ""
        steps = f": {min(self.done + 1, self.total)} of {self.total}" if self.state == "indexing" and self.total else ""
        file = f", {Path(self.file).name}" if self.state == "indexing" and self.file is not None else ""
        message = f": {self.message}" if self.message else ""
        return f"{doing}{folders}{steps}{file}{message} (process {self.process} on {self.machine})"


class Announcement:
    """An activity that other processes can see, until it is closed."""

    def __init__(self, address: str, folder: Path | None, activity: LibraryActivity):
        self.activity = activity
        self._key = (address, next(_numbers))
        self._file = None if folder is None else folder / f"{platform.node()}-{os.getpid()}-{self._key[1]}.json"
        self._written: tuple[LibraryActivity, float] | None = None
        self._closing, self._writing = threading.Event(), threading.Lock()
        _here[self._key] = activity
        self._write()
        self._thread = threading.Thread(target=self._refresh, name="prvr-activity", daemon=True)
        if self._file is not None:
            self._thread.start()

    def update(self, **changes: Any) -> None:
        """Say what has changed: fields of ``LibraryActivity``. It is written within a second; a new file at once."""
        before = self.activity
        _here[self._key] = self.activity = replace(before, **changes)
        if self.activity.file not in (None, before.file):  # if it crashes the decoder, others know which it was
            self._write()

    def follow(self, listener: Callable[[AddProgress], None] | None) -> Callable[[AddProgress], None]:
        """A listener to the progress of adding or reindexing that says it here, and then calls ``listener``."""

        def progress(now: AddProgress) -> None:
            self.update(state="indexing", done=now.files_done, total=now.files, file=str(now.path))
            if listener is not None:
                listener(now)

        return progress

    def close(self) -> None:
        self._closing.set()
        _here.pop(self._key, None)
        if self._file is None:
            return
        self._thread.join()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
            self._file.parent.rmdir()  # if this was the last

    def _refresh(self) -> None:
        while not self._closing.wait(_EVERY):
            assert self._written is not None
            said, at = self._written
            if said != self.activity or time.monotonic() - at > _REFRESH:
                self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        with self._writing, suppress(OSError):  # a full or read-only disk: the work itself says what is wrong
            said = self.activity
            self._written = said, time.monotonic()
            self._file.parent.mkdir(exist_ok=True)
            write_whole(self._file, json.dumps({**asdict(said), "at": time.time()}))


@contextmanager
def announce(address: str, folder: Path | None, activity: LibraryActivity) -> Iterator[Announcement]:
    """Tell other processes about an activity for the length of the block.

    Args:
        address: of the library.
        folder: where the library's activities are kept; None: only this process knows.
        activity: how it begins.
    """
    _sweep(folder)
    announcement = Announcement(address, folder, activity)
    try:
        yield announcement
    finally:
        announcement.close()


def left_activities(folder: Path | None) -> list[LibraryActivity]:
    """Announcements that were not taken back, of processes that may have been killed."""
    return [] if folder is None else [activity for _, activity, _ in _announced(folder)]


def read_activities(address: str, folder: Path | None) -> list[LibraryActivity]:
    """What is being done to a library now, the oldest first. See ``announce``."""
    if folder is None:
        found = [activity for (library, _), activity in [*_here.items()] if library == address]
    else:
        found = [activity for _, activity, age in _announced(folder) if age < _STALE]
    return sorted(found, key=lambda activity: activity.since)


def shared_folder(files: Iterable[VideoFile]) -> tuple[str, ...]:
    """The folder that holds all files; nothing if there is none."""
    parents = {str(file.parent) for file in files}
    try:
        return (str(video_path(os.path.commonpath(parents))),) if parents else ()
    except (ValueError, StorageError):  # on two drives, or in two buckets
        return ()


def _announced(folder: Path) -> Iterator[tuple[Path, LibraryActivity, float]]:
    """Announcements in a folder, with their age in seconds. Files that hold none are left out."""
    for path in folder.glob("*.json"):
        with suppress(NotAnObject, TypeError, ValueError, KeyError):  # deleted meanwhile, or of another version
            values = read_json_object(path)
            age = abs(time.time() - float(values.pop("at")))
            activity = LibraryActivity(**{**values, "folders": tuple(values["folders"])})
            if activity.what in get_args(ActivityKind) and activity.state in get_args(ActivityState):
                yield path, activity, age


def _sweep(folder: Path | None) -> None:
    """Delete what killed processes left behind. A process that was only paused writes its announcement again."""
    if folder is not None:
        for path, _, age in _announced(folder):
            if age > 3 * _STALE:
                with suppress(OSError):
                    path.unlink()
