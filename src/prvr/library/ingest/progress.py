"""How far adding or indexing files is, and what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from prvr.library.ingest.files import SourceFile
from prvr.library.ingest.index import FileProgress
from prvr.library.store.catalogue import Video
from prvr.media import VideoFile


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
    frames: int = 0  # of the added videos
    repeats: int = 0  # of these: not encoded again, because they look like the last one that was

    @property
    def repeated(self) -> float:
        """Share of the frames that were not encoded again."""
        return self.repeats / max(1, self.frames)


class ProgressClock:
    """Turns progress within files into progress of the whole add."""

    def __init__(
        self,
        sources: Sequence[SourceFile | Video],
        report: AddReport,
        began: float,
        progress: Callable[[AddProgress], None] | None,
    ):
        """``report`` holds the seconds of video that are done; ``began``: when the work did; ``progress`` is called."""
        self.report, self.began, self.progress = report, began, progress
        self.files, self.bytes = len(sources), sum(source.size for source in sources)
        self.files_done = self.bytes_done = 0
        self._last: AddProgress | None = None

    def start(self, source: SourceFile | Video) -> FileProgress:
        seconds_before = self.report.video_seconds

        def progress(seconds: float, duration: float | None, heard: float | None = None) -> None:
            self.report.video_seconds = seconds_before + seconds
            share = min(1.0, seconds / duration) if duration else 0.0
            self._tell(
                AddProgress(
                    path=source.path,
                    files=self.files,
                    files_done=self.files_done,
                    bytes=self.bytes,
                    bytes_done=self.bytes_done + round(share * source.size),
                    video_seconds=self.report.video_seconds,
                    elapsed=time.perf_counter() - self.began,
                    heard=heard,
                )
            )

        return progress

    def show_alive(self, source: SourceFile) -> None:
        """Say that this file is in work, without progress: others are being read to recognise them."""
        if self._last is not None and self._last.path == source.path:
            self._tell(replace(self._last, elapsed=time.perf_counter() - self.began))
        else:
            self.start(source)(0.0, None)

    def _tell(self, now: AddProgress) -> None:
        self._last = now
        if self.progress is not None:
            self.progress(now)

    def finish(self, source: SourceFile | Video) -> None:
        self.files_done += 1
        self.bytes_done += source.size
