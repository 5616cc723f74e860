"""Keep a library in step with folders: add, update and remove videos as their files change.

    watcher = FolderWatcher(library, ["~/Videos"], report=print)
    watcher.run()                                  # until Ctrl-C, or until the event given to ``run`` is set

At the start, and every few minutes, the folders are compared with the library; in between, the system reports changes
(``watchfiles``). What was missed while no watcher ran is found at the next start. A folder that is gone or empty where
it was not is taken for a disk that is not mounted: its videos stay until it is back.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prvr.errors import UserError
from prvr.library.activity import Announcement
from prvr.library.errors import LibraryError
from prvr.library.ingest.files import NOT_TEXT, VIDEO_SUFFIXES
from prvr.library.ingest.progress import AddProgress, AddReport
from prvr.library.store.catalogue import Video
from prvr.library.watch_changes import FolderChanges
from prvr.library.watch_claims import claim_folders, crashed_files
from prvr.library.watch_events import ChangeFeed
from prvr.library.watch_folder import KnownMounts, WatchedFolder, paths_below, watched_folders
from prvr.media import SUBTITLE_SUFFIXES, Transcriber, VideoFile

if TYPE_CHECKING:
    from prvr.library.library import Library

WatchKind = Literal["added", "updated", "moved", "removed", "failed", "waiting", "back", "problem", "idle"]
_AT_ONCE = 32  # files indexed before the folders are looked at again
_FIRST_RETRY, _LAST_RETRY = 5.0, 300.0  # seconds to wait after an error; the wait doubles each time


@dataclass(frozen=True)
class WatchOptions:
    """When a watcher acts."""

    settle: float = 2.0
    """seconds that a file must stay the same before it is indexed, and stay away before it is forgotten"""
    rescan: float = 300.0
    """seconds between two full comparisons, for folders whose changes the system does not report, as network drives"""

    def __post_init__(self) -> None:
        if not 0 < self.settle <= 86400 or not 0 < self.rescan <= 86400:
            raise LibraryError(
                f"--settle and --rescan must be above 0 and at most a day (86400 seconds), not {self.settle:g} and "
                f"{self.rescan:g}"
            )


@dataclass(frozen=True)
class WatchEvent:
    """Something that a watcher did or noticed."""

    kind: WatchKind
    path: VideoFile | None = None
    text: str = ""


class _Stopped(Exception):
    """Ends indexing in the middle of a file."""


class FolderWatcher:
    """Watches folders for one library."""

    def __init__(
        self,
        library: Library,
        folders: Sequence[str | Path],
        options: WatchOptions | None = None,
        *,
        tags: Sequence[str] = (),
        speech: str | Transcriber | None = None,
        report: Callable[[WatchEvent], None] = lambda event: None,
        progress: Callable[[AddProgress], None] = lambda now: None,
    ):
        """
        Args:
            library: what is kept in step.
            folders: with everything in them, except hidden files and folders.
            options: when it acts.
            tags: attached to all videos that it adds.
            speech: a speech model for videos without subtitles, as for ``Library.add``.
            report: called with everything that it does or notices.
            progress: called while files are decoded.
        """
        self.library, self.options = library, options or WatchOptions()
        self.folders = watched_folders(folders)
        shared = library.store.activity_folder is None  # with machines that see other files under the same paths
        self.changes = FolderChanges(self.options.settle, shared=shared)
        self._tags, self._speech, self._report, self._progress = tuple(tags), speech, report, progress
        self._known: dict[Path, Video] = {}
        self._known_in: dict[Path, list[Path]] = {}  # by watched folder
        self._known_folders: set[Path] = set()
        self._told_misnamed: set[Path] = set()
        self._again: dict[Path, float] = {}  # new folders, to look at once more
        self._rescan_at = self._retry_at = 0.0
        self._failures, self._last_problem = 0, ""
        self._done = self._done_bytes = 0  # since there was last nothing to do
        self._stop = threading.Event()

    def run(self, stop: threading.Event | None = None, started: Callable[[], None] = lambda: None) -> None:
        """Watch until ``stop`` is set or a KeyboardInterrupt is raised. ``started`` is called before the first look.

        Raises:
            LibraryError: another process watches one of the folders, or a folder does not exist.
            MissingExtra: the package ``watchfiles`` is not installed.
        """
        self._stop = stop or self._stop
        feed = ChangeFeed(self.folders, min(1.0, self.options.settle / 2), self._say_blind)
        notes = self.library.store.activity_folder
        mounts = KnownMounts(None if notes is None else notes.with_name("mounts.json"))
        self._read_known()
        for folder in self.folders:
            folder.mounts = mounts
            if folder.identity is None and not self._videos(folder):
                raise LibraryError(f"{folder.path} does not exist: name a folder with videos")
        with ExitStack() as held:
            claim_folders(self.library, self.folders, held)
            self.changes.suspect = crashed_files(self.library, self.folders)
            said = held.enter_context(self.library.announce("watch", [str(folder.path) for folder in self.folders]))
            started()
            for paths in feed.follow(self._stop):
                self._act(paths, said)

    def _act(self, paths: set[Path] | None, said: Announcement) -> None:
        """Look at what has changed and do what can be done now. Problems are reported and end nothing."""
        try:
            self._look(paths)
            self._report_misnamed()
            if time.monotonic() < self._retry_at or not self._work(said):
                self._say_state(said)
        except _Stopped:
            return
        except Exception as problem:
            self._fail(problem)
            said.update(state="waiting", file=None, message=self._last_problem)

    # -- noticing -----------------------------------------------------------------------------------------------------

    def _look(self, paths: set[Path] | None) -> None:
        """Compare what has changed with the library; None: everything."""
        for folder in self.folders:
            self._check(folder)
        now = time.monotonic()
        if paths is None or now >= self._rescan_at:
            self._compare_all()
            return
        due = {path for path, at in self._again.items() if now >= at}
        for path in due:
            del self._again[path]
        reported = {own for path in paths for folder in self.folders if (own := folder.own_path(path)) is not None}
        for path in due.union(*map(self._affected, reported)):
            if not any(folder.is_away(path) for folder in self.folders):
                self.changes.compare(path, self._known, retry=path in reported)

    def _affected(self, path: Path) -> set[Path]:
        """Which files and folders to look at because this path has changed."""
        suffix = path.suffix.lower()
        if suffix in SUBTITLE_SUFFIXES:
            try:
                videos = [each for each in path.parent.iterdir() if each.suffix.lower() in VIDEO_SUFFIXES]
            except OSError:
                return set()
            return {video for video in videos if path.name.startswith(video.stem)}
        if path.is_dir():  # files may come into a new folder before its changes are reported
            self._again[path] = time.monotonic() + self.options.settle
            return {path}
        return {path} if suffix in VIDEO_SUFFIXES or path in self._known_folders else set()

    def _compare_all(self) -> None:
        self._read_known()
        for folder in self.folders:
            if folder.path not in folder.problems:
                self.changes.compare(folder.path, self._known)
                folder.note_mounts(path for path in self._videos(folder) if path not in self.changes.gone)
            for place in folder.problems:
                self.changes.forget_below(place)
        now = time.monotonic()
        self._again = {path: at for path, at in self._again.items() if at > now}
        self._rescan_at = now + self.options.rescan

    def _check(self, folder: WatchedFolder) -> None:
        """Notice that the disk of a folder, or of one inside it, has gone or come back."""
        before, folder.problems = folder.problems, folder.check(self._videos(folder))
        for place, problem in folder.problems.items():
            self.changes.forget_below(place)
            if before.get(place) != problem:
                forget = shlex.join(["prvr", "library", "remove", str(place), "--library", self.library.address])
                advice = f"if its disk is away, mount it; to forget them: {forget}"
                self._say("waiting", place, f"{problem}. Its videos stay in the library; {advice}")
        for place in before.keys() - folder.problems.keys():
            self._rescan_at = 0.0
            self._again[place] = time.monotonic() + self.options.settle  # its first changes may not be reported
            self._say("back", place)

    def _videos(self, folder: WatchedFolder) -> list[Path]:
        """The videos of a folder that the library holds."""
        return self._known_in.get(folder.path, [])

    def _read_known(self) -> None:
        known = {video.path: video for video in self.library.videos() if isinstance(video.path, Path)}
        roots = [folder.path for folder in self.folders]
        self._known = {path: video for path, video in known.items() if any(root in path.parents for root in roots)}
        self._known_in = {root: paths_below(root, self._known) for root in roots}
        self._known_folders = {folder for path in self._known for folder in path.parents}

    # -- doing --------------------------------------------------------------------------------------------------------

    def _work(self, said: Announcement) -> bool:
        """Index some of the files that are ready, then forget those that are gone. Returns whether more are ready."""
        if self._failures:
            self.library.snapshot()  # the library may have been reindexed
        limit = 1 if self._failures else _AT_ONCE
        ready = self.changes.ready(limit)
        if ready:
            self._add(ready, said)
        lost = [path for path in self.changes.lost(self._known) if self._may_forget(path)]
        if lost:
            removed = self.library.remove(lost)
            self.changes.forget(lost)
            self.changes.seen.difference_update(lost)
            self._read_known()
            for video in removed:
                self._say("removed", video.path)
        self._failures, self._last_problem = 0, ""
        return len(ready) == limit

    def _may_forget(self, path: Path) -> bool:
        """Whether the disk of a file that is gone is still there. Looked up after the file was missed, not before."""
        folder = next(folder for folder in self.folders if folder.path in path.parents)
        if path not in self.changes.seen:
            folder.note_emptied(path)
        return not any(path.is_relative_to(place) for place in folder.check(self._videos(folder)))

    def _add(self, paths: list[Path], said: Announcement) -> None:
        done, done_bytes = self._done, self._done_bytes
        total, total_bytes = done + len(self.changes.changed), done_bytes + self.changes.bytes
        size = sum(self.changes.changed[path].look.source.size for path in paths)

        def progress(now: AddProgress) -> None:
            if self._stop.is_set():
                raise _Stopped
            self._report_added(adder.report, told)
            files, read = done + now.files_done, done_bytes + now.bytes_done
            said.update(state="indexing", done=files, total=total, file=str(now.path), message="")
            self._progress(replace(now, files=total, files_done=files, bytes=total_bytes, bytes_done=read))

        told: set[VideoFile] = set()
        adder = self.library.adder(tags=self._tags, retry=True, speech=self._speech, progress=progress)
        try:
            adder.run(paths)
            self.library.store.clean()
        except Exception:
            self.changes.postpone(paths)
            raise
        finally:
            self._report_added(adder.report, told)
        self.changes.forget(paths)
        self._done, self._done_bytes = done + len(paths), done_bytes + size
        self._read_known()
        for folder in self.folders:
            folder.note_mounts(paths)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _report_added(self, report: AddReport, told: set[VideoFile]) -> None:
        """Tell what became of files, each once: another thread commits them while the next are decoded."""
        news: list[tuple[WatchKind, VideoFile, str]] = [
            ("updated" if path in self._known else "added", path, report.damaged.get(path, ""))
            for path in [*report.added]
        ]
        news += [("moved", path, "") for path in report.moved]
        news += [("failed", path, reason) for path, reason in [*report.failed.items()]]
        for kind, path, text in news:
            if path not in told:
                told.add(path)
                self._say(kind, path, text)

    def _report_misnamed(self) -> None:
        for path in sorted(self.changes.misnamed - self._told_misnamed):
            self._told_misnamed.add(path)
            self._say("failed", path, NOT_TEXT)

    def _fail(self, problem: Exception) -> None:
        """Report a problem once, and try again after a while."""
        text = str(problem) if isinstance(problem, UserError) else f"{type(problem).__name__}: {problem}"
        wait = min(_LAST_RETRY, _FIRST_RETRY * 2**self._failures)
        self._failures += 1
        self._rescan_at = self._retry_at = time.monotonic() + wait
        if text != self._last_problem:
            self._last_problem = text
            self._say("problem", text=f"{text} (trying again)")

    def _say_blind(self, reason: str) -> None:
        instead = f"the folders are compared every {self.options.rescan:g} s instead"
        self._say("problem", text=f"changes are not reported ({reason}): {instead}")

    def _say_state(self, said: Announcement) -> None:
        """Announce that nothing is being indexed, and what is waited for."""
        waiting, before = len(self.changes.changed), said.activity
        problems = [f"{place} {problem}" for folder in self.folders for place, problem in folder.problems.items()]
        if waiting:
            problems.append(f"{waiting} file{' is' if waiting == 1 else 's are'} not complete yet")
        message = self._last_problem or "; ".join(problems)
        self._done = self._done_bytes = 0
        if (before.state, before.message) != ("waiting", message):
            said.update(state="waiting", done=0, total=waiting, file=None, message=message)
        if before.state == "indexing":
            self._say("idle")

    def _say(self, kind: WatchKind, path: VideoFile | None = None, text: str = "") -> None:
        self._report(WatchEvent(kind, path, text))
