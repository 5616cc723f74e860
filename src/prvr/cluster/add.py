"""Add videos on a cluster: a Ray Data pipeline decodes and encodes, and this process commits.

    ClusterIndexing("auto").add(library, find_videos(["archive/"]))

Workers write pieces (``pieces.py``) to storage that all nodes share, or to object storage. This process alone writes
the catalogue and the arrays, in the order in which a single machine would: the library comes out the same. Work that
Ray repeats after a lost worker or node is recognised by its number, or replaces an equal piece.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr import __version__
from prvr.cluster.connection import ClusterError, causes, connected, last_line, require_ray
from prvr.cluster.decode import Decode, Row
from prvr.cluster.encode import EncodeFrames, SectionWriter
from prvr.cluster.jobs import ClusterAdd, EncodedVideo, plan_jobs
from prvr.cluster.object_pieces import ObjectPieces
from prvr.cluster.pieces import FolderPieces, Pieces
from prvr.library import (
    FRAMES,
    Adder,
    AddProgress,
    AddReport,
    Library,
    LibraryError,
    SourceFile,
    claim,
    free_space,
)
from prvr.media import Encoder, EncoderError, MissingExtra
from prvr.objects import WorkingCopy

_BLOCKS = 4096  # the most tasks that decoding is divided into
_WAITING = 4  # videos that may wait for each finishing actor


@dataclass(frozen=True)
class ClusterIndexing:
    """A cluster that indexes videos."""

    address: str = "auto"  # auto, host:port or local
    encoders: int | None = None  # actors that encode frames; None: one for each GPU, or one for three CPUs
    copy: WorkingCopy | None = None  # the working copy, if the library is on object storage

    def __post_init__(self) -> None:
        require_ray(self.address)
        if self.encoders is not None and self.encoders < 1:
            raise ClusterError(f"at least one process must encode, not {self.encoders}")

    def add(
        self,
        library: Library,
        files: Sequence[Path],
        *,
        tags: Sequence[str] = (),
        retry: bool = False,
        progress: Callable[[AddProgress], None] | None = None,
    ) -> AddReport:
        """Add files that ``find_videos`` has found, as ``Library.add_files`` does."""
        return add_with(self.index, library, files, tags=tags, retry=retry, progress=progress)

    def index(self, adder: Adder, sources: Sequence[SourceFile]) -> None:
        """Index and commit these files."""
        with connected(self.address) as ray, _one_cluster(adder.folder), _node_problems():
            pieces: Pieces = FolderPieces(adder.folder)
            if self.copy is not None:
                pieces = ObjectPieces(self.copy.store, self.copy)
            state = ClusterAdd(adder, list(plan_jobs(adder, sources)), pieces)
            state.commit_finished()
            pieces.forget_tries()
            if state.unfinished:
                _Pipeline(ray, state, self.encoders).run()
            pieces.tidy()


def add_with(
    index: Callable[[Adder, Sequence[SourceFile]], None],
    library: Library,
    files: Sequence[Path],
    *,
    tags: Sequence[str] = (),
    retry: bool = False,
    progress: Callable[[AddProgress], None] | None = None,
) -> AddReport:
    """Add files to a library. ``index`` indexes and commits those that need it."""
    if not files and retry:
        files = [video.path for video in library.videos(state="failed")]
    adder = library.adder(tags=tags, retry=retry, progress=progress)
    sources = adder.plan(files)
    if sources:
        index(adder, sources)
    report = adder.finish()
    free_space(library.catalogue, library.folder)
    return report


@contextmanager
def _one_cluster(folder: Path) -> Iterator[None]:
    """Only one cluster at a time adds to a library, because a single process commits."""
    held = claim(folder, Path("prvr library add --cluster"))
    if held is None:
        raise ClusterError(f"another `prvr library add --cluster` is adding to {folder}: wait until it is done")
    try:
        yield
    finally:
        held.release()


@contextmanager
def _node_problems() -> Iterator[None]:
    """Raise a problem of a node as it would have been raised here."""
    try:
        yield
    except Exception as problem:
        chain = causes(problem)
        for each in reversed(chain):  # the innermost first
            if isinstance(each, LibraryError | EncoderError | MissingExtra):
                raise each from None
        if any(type(each).__module__.startswith("ray.") for each in chain):
            reason = max((last_line(each) for each in chain), key=len)
            raise ClusterError(
                f"the cluster gave up ({reason}). What was committed is kept; run the command again to continue"
            ) from problem
        raise


class _Pipeline:
    """The stages on the cluster, and what is sent between them and this process."""

    def __init__(self, ray: Any, state: ClusterAdd, encoders: int | None):
        self.ray, self.state = ray, state
        resources = ray.cluster_resources()
        self.gpus = int(resources.get("GPU", 0))
        cpus = int(resources.get("CPU", 1))
        self.encoders = encoders or self.gpus or max(1, cpus // 3)
        self.opening = (state.pieces.address, __version__)
        actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")(
            SectionWriter
        )
        self.finishers = [actor.remote(*self.opening) for _ in range(max(1, cpus // 8))]
        self.waiting: dict[Any, int] = {}  # the answer of a finishing actor, and the job that it is for

    def run(self) -> None:
        """Do all unfinished jobs."""
        try:
            self.ray.get([actor.open.remote() for actor in self.finishers])
            for row in self._rows():
                video = self.state.receive(row)
                if video is not None:
                    self._finish(video)
                self._collect(at_most=_WAITING * len(self.finishers))
            self._collect(at_most=0)
        finally:
            for actor in self.finishers:
                self.ray.kill(actor)
        if self.state.unfinished:
            raise ClusterError(
                f"the cluster lost {len(self.state.unfinished)} videos: run the command again to continue"
            )

    def _rows(self) -> Iterator[Row]:
        import ray.data as data

        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        _quiet_ray_data()
        encoder = self.state.adder.tracks()[FRAMES].encoder
        assert isinstance(encoder, Encoder)
        items = [
            {"video": number, "path": str(self.state.jobs[number].source.path), "key": self.state.jobs[number].key}
            for number in self.state.unfinished
        ]
        decode = Decode(self.opening[0], encoder.fit, encoder.batch, self.state.adder.rate)
        stages = data.from_items(items, override_num_blocks=min(len(items), _BLOCKS)).flat_map(decode, num_cpus=1)
        pool = data.ActorPoolStrategy(min_size=1, max_size=self.encoders)
        stages = stages.map(
            EncodeFrames,
            fn_constructor_args=self.opening,
            compute=pool,
            num_cpus=0,  # so that the last node left can decode and encode
            **({"num_gpus": 1} if self.gpus else {}),
        )
        yield from stages.iter_rows()

    def _finish(self, video: EncodedVideo) -> None:
        number, job = video.number, self.state.jobs[video.number]
        if video.ending.failed is not None:
            self.state.finish(number, video.ending.failed)
            return
        actor = self.finishers[number % len(self.finishers)]
        self.waiting[actor.finish.remote(job.key, job.video, video.ending, video.chunks)] = number

    def _collect(self, at_most: int) -> None:
        """Collect finished videos. Waits while more than ``at_most`` are unfinished."""
        while self.waiting:
            timeout = None if len(self.waiting) > at_most else 0
            done, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=timeout)
            if not done:
                return
            for answer in done:
                number = self.waiting.pop(answer)
                self.state.finish(number, self.ray.get(answer))


def _quiet_ray_data() -> None:
    """Ray Data prints its plans to standard error. Errors are still printed."""
    for name in ("ray.data", "ray.data._internal", "ray"):
        logging.getLogger(name).setLevel(logging.ERROR)
