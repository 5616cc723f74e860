"""Where adding on a cluster stands: what has arrived of which video, and how far everything is committed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from prvr.cluster.connecting import ClusterError
from prvr.cluster.decoding import Ending, Row
from prvr.cluster.encoding import Chunk
from prvr.cluster.pieces import Pieces, piece_key
from prvr.library.ingest.add import Adder, AddProgress
from prvr.library.ingest.files import Source
from prvr.library.ingest.index import FILE_PROBLEMS, failed, fingerprinted, new_video
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.claims import Claim, claim
from prvr.library.store.commit import commit, disk_problem
from prvr.library.store.pending import Indexed
from prvr.library.store.settings import read_about

_TOGETHER = 32  # videos in one commit


@dataclass(frozen=True)
class Job:
    """A file to be indexed; ``problem`` where it is known beforehand that it cannot be."""

    source: Source
    video: NewVideo
    key: str
    problem: str | None = None


def job_of(adder: Adder, source: Source) -> Job:
    """A file with its fingerprint."""
    video = new_video(source, adder.tags)
    try:
        video = fingerprinted(video)
    except FILE_PROBLEMS as problem:
        return Job(source, video, "", failed(video, problem).video.problem)
    return Job(source, video, piece_key(video, read_about(adder.folder)))


@dataclass(frozen=True)
class Arrived:
    """A video all of which has been decoded and encoded, or cannot be."""

    number: int
    ending: Ending
    chunks: list[Chunk]


@dataclass
class Run:
    """The books of one call of ``Library.add``; ``commit_ready`` writes the library."""

    adder: Adder
    jobs: list[Job]
    began: float
    pieces: Pieces
    committed: int = 0  # jobs from the first on
    settled: dict[int, str | None] = field(default_factory=dict)  # job: None where its piece lies there, or a problem
    arrived: set[int] = field(default_factory=set)
    chunks: dict[int, dict[int, Chunk]] = field(default_factory=dict)
    endings: dict[int, Ending] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # looked at, of videos that are on their way
    bytes_done: int = 0

    def __post_init__(self) -> None:
        self.bytes = sum(job.source.size for job in self.jobs)
        for number, job in enumerate(self.jobs):
            if job.problem is not None or self.pieces.has(job.key):
                self._settle(number, job.problem)

    @property
    def open(self) -> list[int]:
        """Jobs that nobody has finished."""
        return [number for number in range(self.committed, len(self.jobs)) if number not in self.settled]

    def take(self, row: Row) -> Arrived | None:
        """Note an encoded chunk; returns the video when all of it is there, once. Repetitions change nothing."""
        number = int(row["video"])
        if number in self.arrived:
            return None
        if row["end"]:
            self.endings[number] = Ending.from_json(row["end"])
            self._require_seen(self.endings[number], self.jobs[number].source.path)
        elif row["failed"]:
            self.endings[number] = Ending(0, failed=row["failed"])
        else:
            found = Chunk(row["times"], row["vectors"])
            self.chunks.setdefault(number, {})[int(row["chunk"])] = found
            self._seen(number, found.last)
        ending, there = self.endings.get(number), self.chunks.get(number, {})
        if ending is None or (ending.failed is None and len(there) < ending.chunks):
            return None
        self.arrived.add(number)
        self.endings.pop(number)
        self.chunks.pop(number, None)
        return Arrived(number, ending, [] if ending.failed else [there[place] for place in range(ending.chunks)])

    def finished(self, number: int, problem: str | None) -> None:
        """A video's piece lies there, or it cannot be made."""
        self._settle(number, problem)
        self.commit_ready()

    def _settle(self, number: int, problem: str | None) -> None:
        self.settled[number] = problem
        self.bytes_done += self.jobs[number].source.size
        self.seconds.pop(number, None)

    @staticmethod
    def _require_seen(ending: Ending, path: Path) -> None:
        if ending.unseen is not None and path.exists():
            raise ClusterError(
                f"node {ending.unseen} does not see {path}: videos must lie on storage that all nodes share, under the "
                "same name"
            )

    def commit_ready(self) -> None:
        """Commit whatever is finished, in order: the library is what one machine would have made."""
        while self.committed in self.settled:
            first, last = self.committed, self.committed
            while last in self.settled and last - first < _TOGETHER:
                last += 1
            self._commit(range(first, last))
            self.committed = last
            self._tell()

    def _commit(self, numbers: range) -> None:
        items: list[Indexed] = []
        held: list[Claim] = []
        try:
            for number in numbers:
                job = self.jobs[number]
                found = claim(self.adder.folder, job.source.path, wait=True)
                assert found is not None
                held.append(found)
                if not self.adder.known_after_all(job.source):  # another process may have been first
                    items.append(self._item(number))
            if items:
                commit(self.adder.catalogue, self.adder.folder, items)
        except OSError as problem:
            raise disk_problem(self.adder.folder, problem) from problem
        finally:
            for each in held:
                each.release()
        for item in items:
            self.adder.done(item)
        self.pieces.drop(self.jobs[number].key for number in numbers if self.jobs[number].key)

    def _item(self, number: int) -> Indexed:
        job, problem = self.jobs[number], self.settled[number]
        if problem is not None:
            return Indexed(replace(job.video, state="failed", problem=problem))
        found = self.pieces.read(job.key, job.video)
        if found is None:
            raise ClusterError(f"the piece of {job.source.path} was damaged, and is gone: run it again to go on")
        return found

    def _seen(self, number: int, seconds: float) -> None:
        further = seconds - self.seconds.get(number, 0.0)
        if further > 0:
            self.seconds[number] = seconds
            self.adder.report.video_seconds += further
        self._tell(self.jobs[number].source.path)

    def _tell(self, path: Path | None = None) -> None:
        if self.adder.progress is None:
            return
        at = min(self.committed, len(self.jobs) - 1)
        path = path or self.jobs[at].source.path
        elapsed = time.perf_counter() - self.began
        seen = self.adder.report.video_seconds
        self.adder.progress(AddProgress(path, len(self.jobs), at, self.bytes, self.bytes_done, seen, elapsed))
