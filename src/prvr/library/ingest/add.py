"""Adding files: which need work, one claim per file, decode and encode here, commit in a thread.

Whatever ends the process, every video is either in the library or not; running the same command again goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prvr.library.ingest.files import Source, digest, subtitle_signature
from prvr.library.ingest.index import index_file
from prvr.library.ingest.tracks import Track
from prvr.library.store.arrays import sweep
from prvr.library.store.catalogue import Catalogue, Video, read_videos, rename_video
from prvr.library.store.claims import Claim, claim
from prvr.library.store.commit import Committer, disk_problem
from prvr.library.store.pending import Indexed
from prvr.library.store.tags import add_tags
from prvr.media.errors import MediaError


@dataclass(frozen=True)
class AddProgress:
    """Where adding stands."""

    path: Path  # being worked on
    files: int
    files_done: int
    bytes: int
    bytes_done: int
    video_seconds: float  # looked at so far
    elapsed: float

    @property
    def speed(self) -> float:
        """Seconds of video per second."""
        return self.video_seconds / max(self.elapsed, 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds until the end at this pace; None before anything is known."""
        return self.elapsed * (self.bytes - self.bytes_done) / self.bytes_done if self.bytes_done else None


@dataclass
class AddReport:
    """What became of the files."""

    added: list[Path] = field(default_factory=list)
    unchanged: list[Path] = field(default_factory=list)
    moved: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # now or before, with the reason
    damaged: dict[Path, str] = field(default_factory=dict)  # added, but something is missing
    video_seconds: float = 0.0
    elapsed: float = 0.0


Work = Callable[["Adder", list[Source], float], None]  # files that need work, and when adding began


@dataclass
class Adder:
    """One call of ``Library.add``."""

    catalogue: Catalogue
    folder: Path
    tracks: Callable[[], Mapping[str, Track]]  # opened when the first file needs them
    rate: float
    tags: tuple[str, ...]
    retry: bool
    progress: Callable[[AddProgress], None] | None
    with_text: bool
    work: Work | None = None  # who decodes and encodes; None: this process, one file after the other
    report: AddReport = field(default_factory=AddReport)

    def run(self, paths: Sequence[Path]) -> AddReport:
        began = time.perf_counter()
        todo = self._plan(paths)
        if todo:
            try:
                with self.catalogue.writing() as db:
                    sweep(db, self.folder)
            except OSError as problem:
                raise disk_problem(self.folder, problem) from problem
            (self.work or Adder.work_here)(self, todo, began)
        self.report.elapsed = time.perf_counter() - began
        return self.report

    def _plan(self, paths: Sequence[Path]) -> list[Source]:
        """Files that need a closer look; the others are settled by their size and time."""
        with self.catalogue.reading() as db:
            known = {video.path: video for video in read_videos(db)}
        todo, settled = [], []
        for path in paths:
            try:
                source = Source.of(path)
            except MediaError as problem:
                self.report.failed[path] = problem.reason
                continue
            video = known.get(path)
            if video is not None and self._settled(source, video):
                settled.append(video.id)
            else:
                todo.append(source)
        if settled and self.tags:
            add_tags(self.catalogue, settled, self.tags)
        return todo

    def _settled(self, source: Source, video: Video) -> bool:
        """Whether nothing is to be done for a file that the catalogue knows; says so in the report."""
        if (video.size, video.mtime) != (source.size, source.mtime):
            return False
        if video.state == "failed":
            if self.retry:
                return False
            self.report.failed[video.path] = str(video.problem)
            return True
        if self.with_text and subtitle_signature(source.path) != video.subtitles:
            return False
        self.report.unchanged.append(video.path)
        return True

    def work_here(self, todo: list[Source], began: float) -> None:
        """Decode and encode in this process, commit in a thread."""
        total, done = sum(source.size for source in todo), 0
        committer = Committer(self.catalogue, self.folder, self.done)
        later: list[Source] = []
        try:
            for turn, sources in enumerate((todo, later)):
                for number, source in enumerate(sources):
                    held = claim(self.folder, source.path, wait=turn == 1)
                    if held is None:  # another process is at it; see what became of it when all else is done
                        later.append(source)
                        continue
                    seen_before = self.report.video_seconds

                    def seen(at: float, of: float | None, source: Source = source, number: int = number) -> None:
                        self.report.video_seconds = seen_before + at  # noqa: B023 (called before the next round)
                        if self.progress is not None:
                            part = min(1.0, at / of) if of else 0.0
                            told = AddProgress(
                                source.path,
                                len(todo),
                                len(todo) - len(later) + number if sources is later else number,  # noqa: B023
                                total,
                                done + round(part * source.size),  # noqa: B023
                                self.report.video_seconds,
                                time.perf_counter() - began,
                            )
                            self.progress(told)

                    self._one(source, held, committer, seen)
                    done += source.size
        finally:
            committer.close()

    def _one(
        self, source: Source, held: Claim, committer: Committer, seen: Callable[[float, float | None], None]
    ) -> None:
        """Index a claimed file, unless it was done in the meantime or is known under another name."""
        handed_over = False
        try:
            seen(0.0, None)  # before it is opened: whoever listens knows which file it was if that is the end
            if not self.known_after_all(source):
                item = index_file(self.folder, source, self.tracks(), self.rate, self.tags, seen)
                handed_over = True
                committer.put(item, held)
        except OSError as problem:
            raise disk_problem(self.folder, problem) from problem
        finally:
            if not handed_over:
                held.release()

    def known_after_all(self, source: Source) -> bool:
        """Whether a file was done in the meantime, or is known under another name; says so in the report."""
        path = source.path
        with self.catalogue.reading() as db:
            same_name = read_videos(db, "path = ?", (str(path),))
        if same_name and self._settled(source, same_name[0]):
            return True
        try:
            content = digest(path)
            subtitles = subtitle_signature(path) if self.with_text else None
        except OSError:
            return False  # indexing will say what is wrong with it
        with self.catalogue.reading() as db:
            twins = read_videos(db, "digest = ? AND state = 'ok'", (content,))
        for video in twins:
            gone = not video.path.exists()
            if (video.path != path and not gone) or (subtitles is not None and subtitles != video.subtitles):
                continue
            if video.path != path and same_name:
                continue  # both names are known: the content under this one changed
            with self.catalogue.writing() as db:
                if read_videos(db, "id = ? AND path = ?", (video.id, str(video.path))):
                    rename_video(db, video.id, path, source.mtime)
            if self.tags:
                add_tags(self.catalogue, [video.id], self.tags)
            (self.report.unchanged if video.path == path else self.report.moved).append(path)
            return True
        return False

    def done(self, item: Indexed) -> None:
        """Say in the report what became of a file that has been committed."""
        video = item.video
        if video.state == "failed":
            self.report.failed[video.path] = str(video.problem)
            return
        self.report.added.append(video.path)
        if video.problem is not None:
            self.report.damaged[video.path] = video.problem
