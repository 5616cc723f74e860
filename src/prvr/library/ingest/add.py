"""Add files to a library: find out which need work, claim each, decode and encode it, commit it in a thread.

However the process ends, every video is either in the library or not. Running the same command again continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from prvr.library.ingest.files import (
    SPEECH,
    Fingerprint,
    SourceFile,
    is_whole_digest,
    same_subtitles,
    subtitle_signature,
)
from prvr.library.ingest.index import FileProgress, index_file, new_video
from prvr.library.ingest.tracks import Track
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import Video
from prvr.library.store.claims import HeldClaim
from prvr.library.store.commit import Committer, disk_error
from prvr.library.stores import Store
from prvr.media import MediaError, Transcriber, VideoFile, open_transcriber


@dataclass(frozen=True)
class AddProgress:
    """How far adding is."""

    path: VideoFile  # the current file
    files: int
    files_done: int
    bytes: int
    bytes_done: int
    video_seconds: float  # encoded so far
    elapsed: float
    heard: float | None = None  # seconds of the current file that are transcribed; None while its pictures are encoded

    @property
    def speed(self) -> float:
        """Seconds of video per second."""
        return self.video_seconds / max(self.elapsed, 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds until the end at this speed; None before anything is done."""
        return self.elapsed * (self.bytes - self.bytes_done) / self.bytes_done if self.bytes_done else None


@dataclass
class AddReport:
    """What happened to the files."""

    added: list[VideoFile] = field(default_factory=list)
    unchanged: list[VideoFile] = field(default_factory=list)
    moved: list[VideoFile] = field(default_factory=list)
    failed: dict[VideoFile, str] = field(default_factory=dict)  # now or before, with the reason
    damaged: dict[VideoFile, str] = field(default_factory=dict)  # added, but a part is missing
    transcribed: dict[VideoFile, str] = field(default_factory=dict)  # added, with the speech model and the language
    video_seconds: float = 0.0
    elapsed: float = 0.0


@dataclass
class Adder:
    """One call of ``Library.add``."""

    store: Store
    tracks: Callable[[], Mapping[str, Track]]  # called when the first file needs encoding
    rate: float
    tags: tuple[str, ...]
    retry: bool
    progress: Callable[[AddProgress], None] | None
    speech: str | Transcriber | None = None  # writes the lines of videos that have none
    report: AddReport = field(default_factory=AddReport)
    began: float = field(default_factory=time.perf_counter)
    seconds_added: float = 0.0  # of video, as the library counts them

    def run(self, paths: Sequence[VideoFile]) -> AddReport:
        """Add these files, one after the other, in this process."""
        sources = self.plan(paths)
        if sources:
            self._work(sources)
        return self.finish()

    def plan(self, paths: Sequence[VideoFile]) -> list[SourceFile]:
        """The files that need a closer look. The others are reported as unchanged by their size and time."""
        known = {video.path: video for video in self.store.videos()}
        sources, unchanged = [], []
        for path in paths:
            try:
                source = SourceFile.of(path)
            except MediaError as problem:
                self.report.failed[path] = problem.reason
                continue
            video = known.get(path)
            if video is not None and self._needs_nothing(source, video):
                unchanged.append(video.id)
            else:
                sources.append(source)
        if unchanged and self.tags:
            self.store.add_tags(unchanged, self.tags)
        return sources

    def finish(self) -> AddReport:
        self.report.video_seconds = self.seconds_added
        self.report.elapsed = time.perf_counter() - self.began
        return self.report

    def _needs_nothing(self, source: SourceFile, video: Video) -> bool:
        """Whether a known file is unchanged, or failed before and is not retried. Notes which in the report."""
        if not is_unchanged(source, video):
            return False
        if video.state == "failed":
            if self.retry:
                return False
            self.report.failed[video.path] = str(video.problem)
            return True
        if self._lacks_lines(video):
            return False
        self.report.unchanged.append(video.path)
        return True

    def _lacks_lines(self, video: Video) -> bool:
        """Whether a video has no lines, and nobody has listened for them yet."""
        return self.speech is not None and video.subtitles == ""

    @cached_property
    def transcriber(self) -> Transcriber | None:
        return open_transcriber(self.speech) if isinstance(self.speech, str) else self.speech

    def _work(self, sources: Sequence[SourceFile]) -> None:
        """Decode and encode in this process, commit in a thread."""
        clock = ProgressClock(self, sources)
        committer = self.store.committer(self.note_committed)
        busy: list[SourceFile] = []  # claimed by another process: looked at again after all others
        try:
            for wait, files in ((False, sources), (True, busy)):
                for source in files:
                    held = self.store.claim(source.path, wait=wait)
                    if held is None:
                        busy.append(source)
                        continue
                    self._add_claimed(source, held, committer, clock.start(source))
                    clock.finish(source)
        finally:
            committer.close()

    def _add_claimed(
        self, source: SourceFile, held: HeldClaim, committer: Committer[IndexedVideo], progress: FileProgress
    ) -> None:
        """Index a claimed file, unless another process did meanwhile or it is known under another name."""
        handed_over = False
        try:
            progress(0.0, None)  # before the file is opened: if that crashes, the listener knows which file it was
            fingerprint = self.fingerprint(source)
            if not self.is_known(source, fingerprint):
                video = new_video(source, fingerprint, self.tags)
                indexed = index_file(self.store.scratch, video, self.tracks(), self.rate, progress, 0, self.transcriber)
                handed_over = True
                committer.put(indexed, held)
        except OSError as problem:
            raise disk_error(self.store.address, problem) from problem
        finally:
            if not handed_over:
                held.release()

    @staticmethod
    def fingerprint(source: SourceFile) -> Fingerprint | None:
        """Hash a file; None if it cannot be read, which indexing then reports."""
        try:
            return Fingerprint.of(source.path)
        except (OSError, MediaError):
            return None

    def is_known(self, source: SourceFile, fingerprint: Fingerprint | None) -> bool:
        """Whether a file was added meanwhile, or is known under another name. Notes it in the report."""
        path = source.path
        same_name = self.store.find(path=path)
        if same_name and self._needs_nothing(source, same_name[0]):
            return True
        if fingerprint is None:
            return False
        for video in self.store.find(digest=fingerprint.digest):
            moved = video.path != path
            if video.state != "ok" or (moved and (video.path.exists() or same_name)):
                continue  # a copy, or two known names of which this one has new content
            if not moved and not is_whole_digest(video.digest):
                continue  # its time is new, and not every byte was compared
            if not same_subtitles(video.subtitles, fingerprint.subtitles) or (not moved and self._lacks_lines(video)):
                continue
            self.store.rename(video, path, source.mtime)
            if self.tags:
                self.store.add_tags([video.id], self.tags)
            (self.report.moved if moved else self.report.unchanged).append(path)
            return True
        return False

    def note_committed(self, indexed: IndexedVideo) -> None:
        """Note in the report what became of a file that is committed."""
        video = indexed.video
        if video.state == "failed":
            self.report.failed[video.path] = str(video.problem)
            return
        self.report.added.append(video.path)
        self.seconds_added += video.duration or 0.0
        if video.subtitles.startswith(SPEECH):
            self.report.transcribed[video.path] = video.subtitles.removeprefix(SPEECH)
        if video.problem is not None:
            self.report.damaged[video.path] = video.problem


def is_unchanged(source: SourceFile, video: Video, subtitles: str | None = None) -> bool:
    """Whether a file is as it was when it was added, by its size and time and by the subtitles beside it.

    ``subtitles``: their signature, where it is known already. Those of a file that failed do not count.
    """
    if (video.size, video.mtime) != (source.size, source.mtime):
        return False
    if video.state == "failed":
        return True
    return same_subtitles(video.subtitles, subtitle_signature(source.path) if subtitles is None else subtitles)


class ProgressClock:
    """Turns progress within files into progress of the whole add."""

    def __init__(self, adder: Adder, sources: Sequence[SourceFile]):
        self.adder = adder
        self.files, self.bytes = len(sources), sum(source.size for source in sources)
        self.files_done = self.bytes_done = 0

    def start(self, source: SourceFile) -> FileProgress:
        seconds_before = self.adder.report.video_seconds

        def progress(seconds: float, duration: float | None, heard: float | None = None) -> None:
            self.adder.report.video_seconds = seconds_before + seconds
            if self.adder.progress is not None:
                share = min(1.0, seconds / duration) if duration else 0.0
                self.adder.progress(
                    AddProgress(
                        path=source.path,
                        files=self.files,
                        files_done=self.files_done,
                        bytes=self.bytes,
                        bytes_done=self.bytes_done + round(share * source.size),
                        video_seconds=self.adder.report.video_seconds,
                        elapsed=time.perf_counter() - self.adder.began,
                        heard=heard,
                    )
                )

        return progress

    def finish(self, source: SourceFile) -> None:
        self.files_done += 1
        self.bytes_done += source.size
