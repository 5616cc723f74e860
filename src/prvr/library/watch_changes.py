"""Which files in watched folders are new, changed or gone, and when it is safe to act on that.

A file is indexed when its size, its time and the subtitles beside it have stayed the same for a while, it is not empty,
and no program has it open to write. A video is forgotten when its file stayed away for as long, and no new file could
be the same video under another name.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.ingest.add import is_unchanged
from prvr.library.ingest.files import VIDEO_SUFFIXES, SourceFile, find_videos, subtitle_signature
from prvr.library.store.catalogue import Video
from prvr.library.store.listing import can_be_stored
from prvr.library.watch_folder import paths_below
from prvr.media import SUBTITLE_SUFFIXES, MediaError, is_gone


@dataclass(frozen=True)
class _Look:
    """What a file looks like at a moment."""

    source: SourceFile
    subtitles: str


@dataclass(frozen=True)
class _Waiting:
    """A file to index, and since when it looks the same."""

    look: _Look
    since: float


class FolderChanges:
    """Differences between folders and a library, until they are acted on."""

    def __init__(self, settle: float, *, shared: bool = False):
        """``shared``: other machines add videos too, so that a file is gone only if it was seen here before."""
        self.settle, self.shared = settle, shared
        self.seen: set[Path] = set()  # files that were there at some time
        self.changed: dict[Path, _Waiting] = {}
        self.gone: dict[Path, float] = {}  # and since when
        self.suspect: set[Path] = set()  # files that may have crashed a watcher
        self.misnamed: set[Path] = set()  # files that cannot be indexed, because their names are not valid UTF-8

    @property
    def bytes(self) -> int:
        """Of all files to index."""
        return sum(waiting.look.source.size for waiting in self.changed.values())

    def compare(self, place: Path, known: Mapping[Path, Video], *, retry: bool = False) -> None:
        """Compare the videos at or below a path with those that the library knows.

        ``retry``: look at the file again though it is as it was when it could not be read.
        """
        now, beside, found, unreadable = time.monotonic(), _SubtitleLooks(), set(), []
        for path in _videos_at(place):
            look = beside.look(path)
            if look is None:
                unreadable.append(path)  # a folder without permission, a link to a disk that is away
                if not can_be_stored(path):
                    self.misnamed.add(path)
                continue
            found.add(path)
            video = known.get(path)
            tried_again = retry and video is not None and video.state == "failed"
            if video is not None and not tried_again and is_unchanged(look.source, video, look.subtitles):
                self.changed.pop(path, None)
                continue
            waiting = self.changed.get(path)
            if waiting is None or waiting.look != look:
                self.changed[path] = _Waiting(look, now)
        self.seen |= found
        for path in paths_below(place, known):
            if self.shared and path not in self.seen:
                continue
            if path in found or any(path.is_relative_to(each) for each in unreadable) or not is_gone(path):
                self.gone.pop(path, None)
            else:
                self.gone.setdefault(path, now)

    def ready(self, limit: int) -> list[Path]:
        """Some of the files that can be indexed now. Those that are ``suspect`` come last, and each alone."""
        now, beside, ready, last = time.monotonic(), _SubtitleLooks(), list[Path](), list[Path]()
        for path, waiting in [*self.changed.items()]:
            look = beside.look(path)
            if look is None:
                del self.changed[path]
            elif look != waiting.look:
                self.changed[path] = _Waiting(look, now)
            elif now - waiting.since >= self.settle and look.source.size and not is_open_for_writing(path):
                (last if path in self.suspect else ready).append(path)
                if len(ready) == limit:
                    break
        return ready or last[:1]

    def lost(self, known: Mapping[Path, Video]) -> list[Path]:
        """Videos to forget, because their files are gone."""
        now, lost = time.monotonic(), []
        waiting = {each.look.source.size for each in self.changed.values()}
        for path, since in [*self.gone.items()]:
            video = known.get(path)
            if video is None or not is_gone(path):
                del self.gone[path]
            elif now - since >= self.settle and video.size not in waiting:  # else it may have been moved
                lost.append(path)
        return lost

    def forget(self, paths: Iterable[Path]) -> None:
        """These were acted on."""
        for path in paths:
            self.changed.pop(path, None)
            self.gone.pop(path, None)
            self.suspect.discard(path)

    def forget_below(self, folder: Path) -> None:
        """Nothing can be said about a folder, because its disk is away."""
        self.forget([*paths_below(folder, self.changed), *paths_below(folder, self.gone)])

    def postpone(self, paths: Iterable[Path]) -> None:
        """Let all other files go first."""
        for path in paths:
            if path in self.changed:
                self.changed[path] = self.changed.pop(path)


class _SubtitleLooks:
    """Looks at files, and lists each folder once to see whether there are subtitles in it at all."""

    def __init__(self) -> None:
        self._folders: dict[Path, bool] = {}

    def look(self, path: Path) -> _Look | None:
        """None if it is not a file that can be read."""
        try:
            source, folder = SourceFile.of(path), path.parent
            if folder not in self._folders:
                self._folders[folder] = any(name.lower().endswith(SUBTITLE_SUFFIXES) for name in os.listdir(folder))
            return _Look(source, subtitle_signature(path) if self._folders[folder] else "")
        except (MediaError, OSError):
            return None


def _videos_at(place: Path) -> list[Path]:
    """A video file itself, or all videos in a folder and below."""
    if not place.is_dir():
        return [place] if place.suffix.lower() in VIDEO_SUFFIXES and os.path.lexists(place) else []
    with suppress(LibraryError):  # deleted at this moment
        return [path for path in find_videos([place]) if isinstance(path, Path)]
    return []


def is_open_for_writing(path: Path) -> bool:
    """Whether another program has a file open to write.

    Linux tells by refusing a lease on it, for one's own files on local disks. Elsewhere this is False.
    """
    try:
        import fcntl

        lease, signals = fcntl.F_SETLEASE, fcntl.F_SETSIG
    except (ImportError, AttributeError):
        return False
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False  # indexing says what is wrong
    try:
        fcntl.fcntl(file, signals, signal.SIGURG)  # is ignored; SIGIO would end this process if the file is opened now
        fcntl.fcntl(file, lease, fcntl.F_RDLCK)
        fcntl.fcntl(file, lease, fcntl.F_UNLCK)
    except OSError as problem:
        return problem.errno == errno.EAGAIN
    finally:
        os.close(file)
    return False
