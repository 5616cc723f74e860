"""What is being done to a library right now: watching folders, adding, reindexing.

Whoever works on a library announces it. For a library in a folder the announcement is a small file in ``activity/``,
with a lock beside it that the process holds, so that other processes see it, and know it for void when the process was
killed. For a lake, a process sees only what it does itself.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from prvr.files import Busy, NotAnObject, exclusive_lock, is_locked, read_json_object, write_whole
from prvr.library.ingest.progress import AddProgress
from prvr.media import StorageError, VideoFile, video_path

ActivityKind = Literal["watch", "add", "reindex"]
ActivityState = Literal["waiting", "indexing"]
_EVERY = 1.0  # seconds between two looks at whether there is something new to write
_KEPT = 30 * 86400.0  # seconds that a file at which a watcher was killed is remembered
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
        self.activity, self._written = activity, activity
        self._key = (address, next(_numbers))
        self._file: Path | None = None
        self._held, self._writing, self._closing = ExitStack(), threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="prvr-activity", daemon=True)
        _here[self._key] = activity
        if folder is not None:
            self._publish(folder / f"{platform.node()}-{os.getpid()}-{self._key[1]}.json")

    def _publish(self, file: Path) -> None:
        with suppress(OSError, Busy):  # a full or read-only disk: the work itself says what is wrong
            file.parent.mkdir(exist_ok=True)
            if self._held.enter_context(exclusive_lock(_lock_of(file))):  # not where the file system has no locks
                self._file = file
                self._write()
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
        _here.pop(self._key, None)
        self._closing.set()
        if self._file is not None:
            self._thread.join()
            _delete(self._file)
        self._held.close()
        if self._file is not None:
            with suppress(OSError):
                self._file.parent.rmdir()  # if this was the last

    def _keep_writing(self) -> None:
        while not self._closing.wait(_EVERY):
            if self._written != self.activity:
                self._write()

    def _write(self) -> None:
        if self._file is not None:
            with self._writing, suppress(OSError):
                self._written = self.activity
                write_whole(self._file, json.dumps(asdict(self._written)), sync=False)  # of no use after a power cut


@contextmanager
def announce(address: str, folder: Path | None, activity: LibraryActivity) -> Iterator[Announcement]:
    """Tell other processes about an activity for the length of the block.

    Args:
        address: of the library.
        folder: where the library's activities are kept; None: only this process knows.
        activity: how it begins.
    """
    for path, left, alive in _announced(folder):
        if not alive and (left.what != "watch" or left.file is None or _age(path) > _KEPT):
            _delete(path)  # but not the file at which a watcher was killed: the next watcher looks at that
    announcement = Announcement(address, folder, activity)
    try:
        yield announcement
    finally:
        announcement.close()


def read_activities(address: str, folder: Path | None) -> list[LibraryActivity]:
    """What is being done to a library now, the oldest first. See ``announce``."""
    if folder is None:
        found = [activity for (library, _), activity in [*_here.items()] if library == address]
    else:
        found = [activity for _, activity, alive in _announced(folder) if alive]
    return sorted(found, key=lambda activity: activity.since)


def take_killed_watchers(folder: Path | None, folders: Iterable[str]) -> list[LibraryActivity]:
    """What watchers of some of these folders were doing when they were killed. Their announcements are deleted."""
    killed, watched = [], {*folders}
    for path, activity, alive in _announced(folder):
        if not alive and activity.what == "watch" and not watched.isdisjoint(activity.folders):
            killed.append(activity)
            _delete(path)
    return killed


def shared_folder(files: Iterable[VideoFile]) -> tuple[str, ...]:
    """The folder that holds all files; nothing if there is none."""
    parents = {str(file.parent) for file in files}
    try:
        return (str(video_path(os.path.commonpath(parents))),) if parents else ()
    except (ValueError, StorageError):  # on two drives, or in two buckets
        return ()


def _announced(folder: Path | None) -> Iterator[tuple[Path, LibraryActivity, bool]]:
    """Announcements in a folder, and whether their processes are alive. Files that hold none are left out."""
    for path in folder.glob("*.json") if folder is not None else ():
        with suppress(NotAnObject, TypeError, ValueError, KeyError):  # deleted meanwhile, or of another version
            values = read_json_object(path)
            activity = LibraryActivity(**{**values, "folders": tuple(values["folders"])})
            if activity.what in get_args(ActivityKind) and activity.state in get_args(ActivityState):
                yield path, activity, is_locked(_lock_of(path))


def _age(file: Path) -> float:
    """Seconds since an announcement was written."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def _delete(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
        _lock_of(file).unlink(missing_ok=True)
