"""Add videos on a Ray cluster: its workers decode, encode and write sections, and this process commits them.

    add_on_cluster(library, library.adder(), find_videos(["archive/"]), "auto")

A worker is an actor that opens the lake itself and gets groups of files. It returns what it has written: facts about
videos and the names of files, no frames and no vectors. Nothing of it belongs to the library before this process
commits it. So workers, nodes and this process may be killed at any time: what was not committed is done again, and
files that were left behind are never read. Of two commands that add the same file, the commit keeps the first row and
drops the other's sections.

``WorkerPool`` gives out the groups, and not Ray Data: that repeats a file which crashes its decoder without end, and
two commands on one cluster, or one after another that was interrupted, made it give up (Ray 2.60).
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from prvr import __version__
from prvr.errors import UserError
from prvr.lake.connection import ClusterError, address_for_nodes, connected, require_same_version
from prvr.lake.libraries import open_lake
from prvr.lake.store import LakeStore
from prvr.lake.writer import SectionWriter, WrittenFiles
from prvr.library import (
    Adder,
    AddReport,
    IndexedVideo,
    Library,
    ProgressClock,
    SourceFile,
    index_file,
    new_video,
)
from prvr.media import VideoFile, open_transcriber

_GROUP_FILES, _GROUP_BYTES = 32, 1 << 28  # most that a worker gets at once; their sections share files of the tables
_SHARES = 4  # groups for each worker at least, so that all end at about the same time
_TRIES = 3  # of a file alone, after its group was lost with a worker
_UNSEEN, _CRASHED = "does not exist on node", "made the decoder crash"


@dataclass(frozen=True)
class FileGroup:
    """Files that a worker indexes together."""

    files: tuple[SourceFile, ...]
    lost: int = 0  # workers, while the file was alone


GroupResult = tuple[FileGroup, WrittenFiles | None]  # what was written; None if the only file ended several workers


def add_on_cluster(
    lib: Library, adder: Adder, files: Sequence[VideoFile], address: str = "auto", workers: int | None = None
) -> AddReport:
    """Add files to a lake, as ``Library.add_files`` does without a cluster.

    Args:
        lib: the library.
        adder: from ``lib.adder``.
        files: what ``find_videos`` has found. All nodes must see them under the same paths.
        address: of the cluster: ``auto``, ``host:port`` or ``local``.
        workers: processes that decode and encode; by default one for each GPU, or one for each CPU if there is none.
    """
    store = lib.store
    if not isinstance(store, LakeStore):
        raise ClusterError(
            f"{lib.address} is a library for one machine, and a cluster needs a lake: `prvr library copy {lib.address} "
            "NAME.lance` makes one, on a disk that all nodes share or in a bucket"
        )
    if workers is not None and workers < 1:
        raise ClusterError(f"at least one process must decode and encode, not {workers}")
    if not files and adder.retry:
        files = [video.path for video in store.videos("failed")]
    sizes = {video.size for video in store.videos()}  # a file that was moved has the size of a known one
    sources = [
        source
        for source in adder.plan(files)
        if source.size not in sizes or not adder.is_known(source, adder.fingerprint(source))
    ]
    if sources:
        with connected(address) as ray:
            _index(ray, store, adder, sources, workers)
    store.clean()
    return adder.finish()


def _index(ray: Any, store: LakeStore, adder: Adder, sources: Sequence[SourceFile], workers: int | None) -> None:
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), max(1, int(resources.get("CPU", 1)))
    workers, threads = workers or gpus or cpus, max(1, cpus // gpus) if gpus else 1
    needs = {"num_cpus": 1, "num_gpus": 1} if gpus else {"num_cpus": 1}
    actor = ray.remote(**needs, scheduling_strategy="SPREAD")(IndexWorker)
    if adder.speech is not None and not isinstance(adder.speech, str):
        raise ClusterError("the nodes of a cluster open a speech model by its name: give a name or a folder")
    opening = (address_for_nodes(store.address), __version__, adder.tags, threads, adder.speech)
    pool = WorkerPool(ray, lambda: actor.remote(*opening))
    try:
        commit_results(store, adder, sources, pool.results(file_groups(sources, workers), workers))
    finally:
        pool.close()


def commit_results(
    store: LakeStore, adder: Adder, sources: Sequence[SourceFile], results: Iterable[GroupResult]
) -> None:
    """Commit what workers have written, as it comes. If something goes wrong, what was finished is committed first."""
    clock = ProgressClock(sources, adder.report, adder.began, adder.progress)
    committer = store.committer(adder.note_committed)
    try:
        for group, written in results:
            if written is None:
                writer = SectionWriter(store.place)
                for source in group.files:
                    writer.add(_failed(source, adder.tags, _CRASHED))
                written = writer.take()
            for source, video in zip(group.files, (each.video for each in written.videos), strict=True):
                if video.problem is not None and video.problem.startswith(_UNSEEN) and video.path.is_file():
                    raise ClusterError(
                        f"{video.path} {video.problem}: videos must be on storage that all nodes share, under the same "
                        "path"
                    )
                seconds = video.duration or 0.0
                clock.start(source)(seconds, seconds)
                clock.finish(source)
            committer.put(written)
    finally:
        committer.close()


def _failed(source: SourceFile, tags: tuple[str, ...], problem: str) -> IndexedVideo:
    return IndexedVideo(replace(new_video(source, None, tags), state="failed", problem=problem))


def file_groups(sources: Sequence[SourceFile], workers: int) -> list[FileGroup]:
    """Divide files into groups: large, to share files of the tables, but small enough that all workers have work."""
    most = max(1, min(_GROUP_FILES, len(sources) // (_SHARES * workers)))
    groups: list[list[SourceFile]] = []
    size = 0
    for source in sources:
        if not groups or len(groups[-1]) == most or size + source.size > _GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(source)
        size += source.size
    return [FileGroup(tuple(group)) for group in groups]


class WorkerPool:
    """Gives groups to workers. A worker that dies is replaced, and its files are tried again, each alone."""

    def __init__(self, ray: Any, start: Callable[[], Any]):
        """``start`` starts a worker: an actor with ``open`` and ``index``."""
        self.ray, self.start = ray, start
        self.waiting: deque[FileGroup] = deque()
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, FileGroup | None]] = {}  # by answer: the worker and its group; None: it opens
        self.stillborn = 0  # workers in a row that died before they could begin

    def results(self, groups: Sequence[FileGroup], workers: int) -> Iterator[GroupResult]:
        """Index all groups, in any order."""
        self.waiting.extend(groups)
        for _ in range(min(workers, len(groups))):
            self._start_worker()
        while self.waiting or any(group is not None for _, group in self.busy.values()):
            while self.waiting and self.idle:
                worker, next_group = self.idle.pop(), self.waiting.popleft()
                self.busy[worker.index.remote(next_group)] = (worker, next_group)
            (answer,), _ = self.ray.wait(list(self.busy))
            worker, group = self.busy.pop(answer)
            try:
                written = self.ray.get(answer)
            except self.ray.exceptions.RayTaskError as problem:  # the worker raised it
                self.idle.append(worker)
                raise problem.cause from problem
            except self.ray.exceptions.RayError as problem:  # the worker or its node is gone
                self.ray.kill(worker)
                self._start_worker()
                if group is None:
                    self._note_stillborn(problem)
                elif len(group.files) == 1 and group.lost + 1 >= _TRIES:
                    yield group, None
                else:
                    lost = group.lost + 1 if len(group.files) == 1 else 0
                    self.waiting.extend(FileGroup((source,), lost) for source in group.files)
                continue
            self.stillborn = 0
            self.idle.append(worker)
            if group is not None:
                yield group, written

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker in [*self.idle, *(worker for worker, _ in self.busy.values())]:
            self.ray.kill(worker)

    def _start_worker(self) -> None:
        worker = self.start()
        self.busy[worker.open.remote()] = (worker, None)

    def _note_stillborn(self, problem: Exception) -> None:
        self.stillborn += 1
        if self.stillborn >= _TRIES * len(self.busy):
            reason = (str(problem).strip().splitlines() or [type(problem).__name__])[-1][:300]
            raise ClusterError(f"the workers on the cluster end before they can begin: {reason}")


# -- on the nodes -----------------------------------------------------------------------------------------------------


class IndexWorker:
    """A process on a node that decodes and encodes videos and writes their sections."""

    def __init__(self, lake: str, version: str, tags: tuple[str, ...], threads: int = 1, speech: str | None = None):
        """``threads``: that decode; several feed one encoder on a GPU."""
        self.lake, self.version, self.tags, self.speech = lake, version, tags, speech
        self.threads = ThreadPoolExecutor(threads, "prvr-decode")

    def open(self) -> None:
        """Open the lake and load the encoders and the model."""
        require_same_version(self.version)
        with _named_node():
            store = open_lake(self.lake)
            library = Library(store)
            self.tracks, self.rate, self.place = library.tracks, library.settings.rate, store.place
            self.transcriber = None if self.speech is None else open_transcriber(self.speech)

    def index(self, group: FileGroup) -> WrittenFiles:
        """Index files and write their sections together."""
        with _named_node():
            writer = SectionWriter(self.place)
            for indexed in self.threads.map(self._index, group.files):
                writer.add(indexed)
            return writer.take()

    def _index(self, source: SourceFile) -> IndexedVideo:
        if not source.path.is_file():
            return _failed(source, self.tags, f"{_UNSEEN} {socket.gethostname()}")
        video, transcriber = new_video(source, Adder.fingerprint(source), self.tags), self.transcriber
        return index_file(None, video, self.tracks, self.rate, _ignore, decode_threads=1, transcriber=transcriber)


def _ignore(seconds: float, duration: float | None, heard: float | None = None) -> None:
    """Progress that nobody sees: the process that commits reports whole files."""


@contextmanager
def _named_node() -> Iterator[None]:
    """Say in errors that a person can fix on which node they happened."""
    try:
        yield
    except (UserError, OSError) as problem:
        raise ClusterError(f"node {socket.gethostname()}: {problem}") from None
