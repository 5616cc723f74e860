"""Add files to a library: find out which need work, claim them, decode and encode them, commit them in a thread.

However the process ends, every video is either in the library or not. Running the same command again continues.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from threading import Event

from prvr.library.ingest.files import (
    Fingerprint,
    SourceFile,
    is_whole_digest,
    lacks_lines,
    same_subtitles,
    subtitle_signature,
)
from prvr.library.ingest.index import Decoding, index_files, new_video
from prvr.library.ingest.progress import AddProgress, AddReport, ProgressClock
from prvr.library.ingest.tracks import Track
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import NewVideo, Video, speech_of
from prvr.library.store.claims import ClaimHeld, HeldClaim
from prvr.library.store.commit import Committer, disk_error
from prvr.library.store.settings import LibrarySettings
from prvr.library.stores import Store
from prvr.media import MediaError, Transcriber, VideoFile, drop_early_decoders, is_gone, open_transcriber

_HASHING = 2  # threads that read files to recognise them
_LOOKED_AT = 8  # files whose size says whether there is much to decode
_TELL_EVERY = 10.0  # seconds between signs of progress while a file is read to recognise it
_Fingerprinted = tuple[SourceFile, Future[Fingerprint | None]]


@dataclass(frozen=True)
class ClaimedFile:
    """A file that this process indexes, and no other."""

    source: SourceFile
    held: HeldClaim
    video: NewVideo


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
    processes: int | None = None  # that decode; None: one for each core
    again: frozenset[VideoFile] = frozenset()  # files to index although they have not changed
    report: AddReport = field(default_factory=AddReport)
    began: float = field(default_factory=time.perf_counter)
    seconds_added: float = 0.0  # of video, as the library counts them
    claimed: deque[ClaimedFile] = field(default_factory=deque)  # and not yet indexed, the next one first

    def run(self, paths: Sequence[VideoFile]) -> AddReport:
        """Add these files, in their order."""
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
        if source.path in self.again or not is_unchanged(source, video):
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
        """Whether somebody should listen to a video now, because it has no lines."""
        return self.speech is not None and lacks_lines(video.subtitles)

    @cached_property
    def transcriber(self) -> Transcriber | None:
        return open_transcriber(self.speech) if isinstance(self.speech, str) else self.speech

    def _work(self, sources: Sequence[SourceFile]) -> None:
        """Decode in several processes, encode in this one, commit in a thread."""
        clock = ProgressClock(sources, self.report, self.began, self.progress)
        committer = self.store.committer(self.note_committed)
        busy: list[SourceFile] = []  # claimed by another process: looked at again after all others
        try:
            with closing(self._fingerprinted(sources)) as files:
                decoding = Decoding(self.processes, clock.files, clock.bytes)
                self._add_claimed(self._claim(files, clock, busy), committer, clock, decoding)
            for source in busy:  # one at a time: who waits must hold no other claim
                with closing(self._fingerprinted([source])) as files:
                    decoding = Decoding(self.processes, 1, source.size)
                    self._add_claimed(self._claim(files, clock), committer, clock, decoding)
        except OSError as problem:
            raise disk_error(self.store.address, problem) from problem
        finally:
            committer.close()

    def _fingerprinted(self, sources: Sequence[SourceFile]) -> Generator[_Fingerprinted, None, None]:
        """Files, each with its future fingerprint. Threads read some files ahead, which releases the lock."""
        threads, stop = ThreadPoolExecutor(_HASHING, "prvr-hash"), Event()
        waiting = deque[_Fingerprinted]()
        try:
            for source in sources:
                waiting.append((source, threads.submit(self.fingerprint, source, stop)))
                if len(waiting) > 2 * _HASHING:
                    yield waiting.popleft()
            yield from waiting
        finally:
            stop.set()
            threads.shutdown(cancel_futures=True)

    def _claim(
        self, files: Iterable[_Fingerprinted], clock: ProgressClock, busy: list[SourceFile] | None = None
    ) -> Iterator[ClaimedFile]:
        """Claim files that need indexing. Those that others have claimed go to ``busy``; without it, they are awaited.

        Left out is what another process added meanwhile, or what is known under another name.
        """
        for source, fingerprint in files:
            try:
                held = self.store.claim(source.path, wait=busy is None)
            except ClaimHeld as problem:
                self.report.failed[source.path] = problem.reason
                continue
            if held is None:
                assert busy is not None
                busy.append(source)
                continue
            try:
                clock.show_alive(self.claimed[0].source if self.claimed else source)
                while wait([fingerprint], _TELL_EVERY).not_done:
                    clock.show_alive(self.claimed[0].source if self.claimed else source)
                known = self.is_known(source, fingerprint.result())
            except BaseException:
                held.release()
                raise
            if known:
                held.release()
                clock.finish(source)
            else:
                yield ClaimedFile(source, held, new_video(source, fingerprint.result(), self.tags))

    def _add_claimed(
        self,
        files: Iterator[ClaimedFile],
        committer: Committer[IndexedVideo],
        clock: ProgressClock,
        decoding: Decoding,
    ) -> None:
        """Index claimed files. They are claimed a little ahead, while those before are encoded."""
        claimed = self.claimed

        def videos() -> Iterator[NewVideo]:
            for file in files:
                claimed.append(file)
                yield file.video

        waiting = videos()
        try:
            first = next(waiting, None)
            if first is None:
                return
            decoding.start_early(self.store.record.settings)
            indexing = index_files(
                self.store.scratch,
                chain([first], waiting),
                self.tracks(),
                self.rate,
                lambda _: clock.start(claimed[0].source),
                self.transcriber,
                decoding,
            )
            with closing(indexing):
                for indexed in indexing:
                    file = claimed.popleft()
                    committer.put(indexed, file.held)
                    clock.finish(file.source)
        finally:
            drop_early_decoders()
            while claimed:
                claimed.popleft().held.release()

    @staticmethod
    def fingerprint(source: SourceFile, stop: Event | None = None) -> Fingerprint | None:
        """Hash a file; None if it cannot be read, which indexing then reports, or if ``stop`` was set meanwhile."""
        try:
            return Fingerprint.of(source.path, stop)
        except (OSError, MediaError):
            return None

    def is_known(self, source: SourceFile, fingerprint: Fingerprint | None) -> bool:
        """Whether a file was added meanwhile, or is known under another name. Notes it in the report."""
        path = source.path
        same_name = self.store.find(path=path)
        if same_name and self._needs_nothing(source, same_name[0]):
            return True
        if fingerprint is None or path in self.again:
            return False
        for video in self.store.find(digest=fingerprint.digest):
            moved = video.path != path
            if video.state != "ok" or (moved and (same_name or not is_gone(video.path))):
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
        self.report.frames += video.frames
        self.report.repeats += indexed.repeats
        self.seconds_added += video.duration or 0.0
        speech = speech_of(video.subtitles)
        if speech is not None:
            self.report.transcribed[video.path] = speech
        if video.problem is not None:
            self.report.damaged[video.path] = video.problem


def start_decoders(paths: Sequence[VideoFile], settings: LibrarySettings, processes: int | None = None) -> None:
    """Begin to start the processes that will decode these files, before a library is created for them.

    Creating it loads the encoder, which takes seconds. Does nothing where there is little to decode.
    """
    size = 0
    for path in paths[:_LOOKED_AT]:
        with suppress(OSError, MediaError):  # which adding the file will report
            size += path.stat().st_size
    Decoding(processes, len(paths), size).start_early(settings)


def is_unchanged(source: SourceFile, video: Video, subtitles: str | None = None) -> bool:
    """Whether a file is as it was when it was added, by its size and time and by the subtitles beside it.

    ``subtitles``: their signature, where it is known already. Those of a file that failed do not count.
    """
    if (video.size, video.mtime) != (source.size, source.mtime):
        return False
    if video.state == "failed":
        return True
    return same_subtitles(video.subtitles, subtitle_signature(source.path) if subtitles is None else subtitles)
