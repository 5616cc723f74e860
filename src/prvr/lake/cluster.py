"""Add videos on a Ray cluster: its workers decode, encode and write sections, and this process commits them.

    add_on_cluster(library, library.adder(), find_videos(["archive/"]), "auto")

Ray Data gives groups of files to workers. A worker opens the lake itself. It returns what it has written: facts about
videos and the names of files, no frames and no vectors. Nothing of it belongs to the library before this process
commits it. So workers, nodes and this process may be killed at any time: what was not committed is done again, and
sections that were left behind are never read, and deleted after a day. Of two commands that add the same file, the
commit keeps the first row and drops the other's sections.
"""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from prvr import __version__
from prvr.errors import UserError
from prvr.lake.connection import ClusterError, connected, require_same_version
from prvr.lake.store import LakeStore, open_lake
from prvr.lake.writer import SectionWriter, WrittenFiles
from prvr.library import (
    Adder,
    AddReport,
    IndexedVideo,
    Library,
    ProgressClock,
    SourceFile,
    Track,
    index_file,
    new_video,
)

_GROUP_FILES, _GROUP_BYTES = 32, 1 << 28  # most that a worker gets at once; their sections share files of the tables
_SHARES = 4  # groups for each worker at least, so that all end at about the same time
_TRIES = 3  # of a file that ends its worker
_UNSEEN, _CRASHED = "does not exist on node", "made the decoder crash"
Count = Callable[[str, int], int]  # ``Attempts.count``, here or on the cluster


@dataclass(frozen=True)
class FileGroup:
    """Files that a worker indexes together."""

    files: tuple[SourceFile, ...]


def add_on_cluster(
    lib: Library, adder: Adder, files: Sequence[Path], address: str = "auto", workers: int | None = None
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
            commit_results(store, adder, sources, _results(ray, store.address, adder.tags, sources, workers))
    store.clean()
    return adder.finish()


def commit_results(
    store: LakeStore, adder: Adder, sources: Sequence[SourceFile], results: Iterable[WrittenFiles | Exception]
) -> None:
    """Commit what workers have written, as it comes. If something goes wrong, what was finished is committed first."""
    by_path = {source.path: source for source in sources}
    clock, committer = ProgressClock(adder, sources), store.committer(adder.note_committed)
    try:
        for result in results:
            if isinstance(result, Exception):
                raise result
            for video in [each.video for each in result.videos]:
                if video.problem is not None and video.problem.startswith(_UNSEEN) and video.path.exists():
                    raise ClusterError(
                        f"{video.path} {video.problem}: videos must be on storage that all nodes share, under the same "
                        "path"
                    )
                seconds = video.duration or 0.0
                clock.start(by_path[video.path])(seconds, seconds)
                clock.finish(by_path[video.path])
            committer.put_written(result)
    finally:
        committer.close()


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


def _results(
    ray: Any, lake: str, tags: tuple[str, ...], sources: Sequence[SourceFile], workers: int | None
) -> Iterator[WrittenFiles | Exception]:
    """What workers return for all groups of files, in any order. Ray repeats the work of lost workers."""
    from ray import data
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for name in ("ray", "ray.data", "ray.data._internal"):  # they print every plan and every lost worker
        logging.getLogger(name).setLevel(logging.CRITICAL)
    data.DataContext.get_current().enable_progress_bars = False
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), max(1, int(resources.get("CPU", 1)))
    workers = workers or gpus or cpus
    groups = file_groups(sources, workers)
    beside = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    attempts = ray.remote(num_cpus=0, scheduling_strategy=beside)(Attempts).remote()
    opening = (lake, __version__, tags, partial(_count_on_cluster, attempts), max(1, cpus // gpus) if gpus else 1)
    rows = data.from_items([{"group": group} for group in groups], override_num_blocks=len(groups)).map(
        IndexWorker,
        fn_constructor_args=opening,
        compute=data.ActorPoolStrategy(size=min(workers, len(groups)), max_tasks_in_flight_per_actor=1),
        num_cpus=1,
        num_gpus=1 if gpus else None,
    )
    try:
        for batch in rows.iter_batches(batch_size=None, prefetch_batches=0):
            yield from batch["result"]
    except ray.exceptions.RayError as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[-1][:300]
        raise ClusterError(
            f"the cluster gave up ({reason}). What was finished is kept; run the command again to continue"
        ) from problem


class Attempts:
    """Counts how often a file was begun and not ended. Runs beside the command, and so outlives every worker."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()

    def count(self, path: str, change: int) -> int:
        """Note that a file is begun (1) or ended (-1). Returns how often it was begun before and not ended."""
        before = self.begun[path]
        self.begun[path] = 0 if change < 0 else before + change
        return before


def _count_on_cluster(attempts: Any, path: str, change: int) -> int:
    import ray

    before: int = ray.get(attempts.count.remote(path, change))
    return before


# -- on the nodes -----------------------------------------------------------------------------------------------------


class IndexWorker:
    """A process on a node that decodes and encodes videos and writes their sections."""

    def __init__(self, lake: str, version: str, tags: tuple[str, ...], count: Count, threads: int = 1):
        """``threads``: that decode; several feed one encoder on a GPU."""
        self.lake, self.version, self.tags, self.count = lake, version, tags, count
        self.threads = ThreadPoolExecutor(threads, "prvr-decode")
        self.node = socket.gethostname()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Index the group in a row of Ray Data. The row that is returned holds what was written, or the problem."""
        try:
            return {"result": self.index(row["group"])}
        except (UserError, OSError) as problem:
            return {"result": ClusterError(f"node {self.node}: {problem}")}
        except Exception as problem:
            problem.add_note(traceback.format_exc())
            return {"result": problem}

    def index(self, group: FileGroup) -> WrittenFiles:
        """Index files and write their sections together. A file that may crash its decoder comes last and alone."""
        writer, _ = SectionWriter(self.lake), self.tracks
        suspects = [source for source in group.files if self.count(str(source.path), 0)]
        for indexed in self.threads.map(self._index, [each for each in group.files if each not in suspects]):
            writer.add(indexed)
        for indexed in map(self._index, suspects):
            writer.add(indexed)
        return writer.take()

    @cached_property
    def library(self) -> Library:
        require_same_version(self.version)
        return Library(open_lake(self.lake))

    @cached_property
    def tracks(self) -> dict[str, Track]:
        """The tracks of the library, with encoders and model loaded."""
        tracks = self.library.tracks
        for track in tracks.values():  # a tokenizer cannot be used by two threads at the same time
            track.encoder.encode_texts = _one_at_a_time(track.encoder.encode_texts)  # type: ignore[method-assign]
        return tracks

    def _index(self, source: SourceFile) -> IndexedVideo:
        video, name = new_video(source, None, self.tags), str(source.path)
        if not source.path.exists():
            return IndexedVideo(replace(video, state="failed", problem=f"{_UNSEEN} {self.node}"))
        if self.count(name, 1) >= _TRIES:
            return IndexedVideo(replace(video, state="failed", problem=_CRASHED))
        video, rate = new_video(source, Adder.fingerprint(source), self.tags), self.library.settings.rate
        indexed = index_file(None, video, self.tracks, rate, lambda seconds, duration: None, decode_threads=1)
        self.count(name, -1)
        return indexed


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.Lock()

    def locked(*arguments: Any) -> Any:
        with lock:
            return function(*arguments)

    return locked
