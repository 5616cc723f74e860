"""Progress of adding on a cluster: which chunks of each video have arrived, and which videos are committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from prvr.cluster.connection import ClusterError
from prvr.cluster.decode import Ending, Row
from prvr.cluster.encode import Chunk
from prvr.cluster.pieces import Pieces, piece_key
from prvr.library import (
    Adder,
    AddProgress,
    Claim,
    Fingerprint,
    IndexedVideo,
    NewVideo,
    SourceFile,
    claim,
    commit_videos,
    disk_error,
    new_video,
    read_record,
)

_BATCH = 32  # videos in one commit


@dataclass(frozen=True)
class FileJob:
    """A file to index."""

    source: SourceFile
    fingerprint: Fingerprint | None  # None if the file could not be read here; decoding then reports why
    video: NewVideo
    key: str  # of its piece


def plan_jobs(adder: Adder, sources: Sequence[SourceFile]) -> Iterator[FileJob]:
    """Hash each file. Those that are known under another name need no job."""
    record = read_record(adder.folder)
    for source in sources:
        fingerprint = adder.fingerprint(source)
        if not adder.is_known(source, fingerprint):
            video = new_video(source, fingerprint, adder.tags)
            yield FileJob(source, fingerprint, video, piece_key(video, record))


@dataclass(frozen=True)
class EncodedVideo:
    """A video that is completely decoded and encoded, or has failed."""

    number: int
    ending: Ending
    chunks: list[Chunk]


@dataclass
class ClusterAdd:
    """The state of one add. Jobs are known by their place in ``jobs``; they are committed in this order."""

    adder: Adder
    jobs: list[FileJob]
    pieces: Pieces
    committed: int = 0  # jobs, from the first on
    outcomes: dict[int, str | None] = field(default_factory=dict)  # of finished jobs: None, or why the file failed
    encoded: set[int] = field(default_factory=set)
    chunks: dict[int, dict[int, Chunk]] = field(default_factory=dict)
    endings: dict[int, Ending] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # encoded, of videos that are not finished
    bytes_done: int = 0

    def __post_init__(self) -> None:
        self.bytes = sum(job.source.size for job in self.jobs)
        for number, job in enumerate(self.jobs):
            if self.pieces.has(job.key):
                self._note_outcome(number, None)

    @property
    def unfinished(self) -> list[int]:
        """Jobs that still have to be done."""
        return [number for number in range(self.committed, len(self.jobs)) if number not in self.outcomes]

    def receive(self, row: Row) -> EncodedVideo | None:
        """Note an encoded chunk. Returns the video when it is complete, once; repeated rows change nothing."""
        number = int(row["video"])
        if number in self.encoded:
            return None
        if row["end"]:
            self.endings[number] = Ending.from_json(row["end"])
            _require_visible(self.endings[number], self.jobs[number].source.path)
        elif row["failed"]:
            self.endings[number] = Ending(0, failed=row["failed"])
        else:
            chunk = Chunk(row["times"], row["vectors"])
            self.chunks.setdefault(number, {})[int(row["chunk"])] = chunk
            self._note_seconds(number, chunk.last)
        ending, chunks = self.endings.get(number), self.chunks.get(number, {})
        if ending is None or (ending.failed is None and len(chunks) < ending.chunks):
            return None
        self.encoded.add(number)
        self.endings.pop(number)
        self.chunks.pop(number, None)
        return EncodedVideo(number, ending, [] if ending.failed else [chunks[place] for place in range(ending.chunks)])

    def finish(self, number: int, problem: str | None) -> None:
        """Note that a video's piece is written, or why the file failed; then commit what is next in order."""
        self._note_outcome(number, problem)
        self.commit_finished()

    def _note_outcome(self, number: int, problem: str | None) -> None:
        self.outcomes[number] = problem
        self.bytes_done += self.jobs[number].source.size
        self.seconds.pop(number, None)

    def commit_finished(self) -> None:
        """Commit the finished videos in order, so that the library is the one that a single machine makes."""
        while self.committed in self.outcomes:
            first, last = self.committed, self.committed
            while last in self.outcomes and last - first < _BATCH:
                last += 1
            self._commit(range(first, last))
            self.committed = last
            self._report_progress()

    def _commit(self, numbers: range) -> None:
        videos: list[IndexedVideo] = []
        claims: list[Claim] = []
        try:
            for number in numbers:
                job = self.jobs[number]
                held = claim(self.adder.folder, job.source.path, wait=True)
                assert held is not None
                claims.append(held)
                if not self.adder.is_known(job.source, job.fingerprint):  # another process may have been first
                    videos.append(self._indexed(number))
            if videos:
                commit_videos(self.adder.catalogue, self.adder.folder, videos)
        except OSError as problem:
            raise disk_error(self.adder.folder, problem) from problem
        finally:
            for held in claims:
                held.release()
        for video in videos:
            self.adder.note_committed(video)
        self.pieces.drop(self.jobs[number].key for number in numbers)

    def _indexed(self, number: int) -> IndexedVideo:
        job, problem = self.jobs[number], self.outcomes[number]
        if problem is not None:
            return IndexedVideo(replace(job.video, state="failed", problem=problem))
        indexed = self.pieces.read(job.key, job.video)
        if indexed is None:
            raise ClusterError(f"the piece of {job.source.path} was damaged and is deleted: run the command again")
        return indexed

    def _note_seconds(self, number: int, seconds: float) -> None:
        further = seconds - self.seconds.get(number, 0.0)
        if further > 0:
            self.seconds[number] = seconds
            self.adder.report.video_seconds += further
        self._report_progress(self.jobs[number].source.path)

    def _report_progress(self, path: Path | None = None) -> None:
        if self.adder.progress is None:
            return
        current = min(self.committed, len(self.jobs) - 1)
        self.adder.progress(
            AddProgress(
                path=path or self.jobs[current].source.path,
                files=len(self.jobs),
                files_done=current,
                bytes=self.bytes,
                bytes_done=self.bytes_done,
                video_seconds=self.adder.report.video_seconds,
                elapsed=time.perf_counter() - self.adder.began,
            )
        )


def _require_visible(ending: Ending, path: Path) -> None:
    """A file that exists here but not on a node is the cluster's problem, not the file's."""
    if ending.unseen_by is not None and path.exists():
        raise ClusterError(
            f"node {ending.unseen_by} does not see {path}: videos must be on storage that all nodes share, under the "
            "same path"
        )
