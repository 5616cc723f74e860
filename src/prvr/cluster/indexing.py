"""Adding on a cluster: decode and encode as a Ray Data pipeline, one process that commits.

    Library.open("films.prvr").add(["archive/"], work=ClusterIndexing("auto"))

Workers leave pieces (``pieces.py``) on storage that all nodes share, or on object storage; this process alone writes
the catalogue and the shards, in the order in which a single machine would have: the library comes out the same.
Whatever Ray repeats after a lost worker or node is recognised by its number or replaces an equal piece.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr import __version__
from prvr.cluster.connecting import ClusterError, causes, connected, last_line, require_ray
from prvr.cluster.decoding import Decode, Row
from prvr.cluster.encoding import EncodeFrames, Finish
from prvr.cluster.object_pieces import ObjectPieces
from prvr.cluster.pieces import FolderPieces
from prvr.cluster.run import Arrived, Run, job_of
from prvr.library.errors import LibraryError
from prvr.library.ingest.add import Adder
from prvr.library.ingest.files import Source
from prvr.library.ingest.tracks import FRAMES
from prvr.library.store.claims import claim
from prvr.media.encoders.base import Encoder
from prvr.media.errors import EncoderError, MissingExtra
from prvr.objects import WorkingCopy

_BLOCKS = 4096  # the most tasks that decoding is cut into
_AHEAD = 4  # videos that wait at each finishing actor


@dataclass(frozen=True)
class ClusterIndexing:
    """Who works when ``Library.add`` is told ``work=ClusterIndexing(address)``."""

    address: str = "auto"
    encoders: int | None = None  # actors that encode pictures; None: one for each GPU, or one for three CPUs
    copy: WorkingCopy | None = None  # of a library on object storage: the one that is added to

    def __post_init__(self) -> None:
        require_ray(self.address)
        if self.encoders is not None and self.encoders < 1:
            raise ClusterError(f"at least one process must encode, not {self.encoders}")

    def __call__(self, adder: Adder, todo: list[Source], began: float) -> None:
        with connected(self.address) as ray, _alone(adder.folder), _explained():
            jobs = [job_of(adder, source) for source in todo if not adder.known_after_all(source)]
            pieces = FolderPieces(adder.folder) if self.copy is None else ObjectPieces(self.copy.store, self.copy)
            run = Run(adder, jobs, began, pieces)
            run.commit_ready()
            run.pieces.begin_anew()
            if run.open:
                _Pipeline(ray, run, self.encoders).work()
            run.pieces.tidy()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One cluster at a time adds to a library: a single process commits."""
    held = claim(folder, Path("prvr library add --cluster"))
    if held is None:
        raise ClusterError(f"another `prvr library add --cluster` works on {folder}: wait until it is done")
    try:
        yield
    finally:
        held.release()


@contextmanager
def _explained() -> Iterator[None]:
    """What went wrong on a node, as what it would have been here."""
    try:
        yield
    except Exception as problem:
        chain = causes(problem)
        for each in reversed(chain):  # the innermost
            if isinstance(each, LibraryError | EncoderError | MissingExtra):
                raise each from None
        if any(type(each).__module__.startswith("ray.") for each in chain):
            said = max((last_line(each) for each in chain), key=len)
            raise ClusterError(f"the cluster gave up ({said}): what was committed is kept; run it again") from problem
        raise


class _Pipeline:
    """The stages on the cluster, and what travels between them and this process."""

    def __init__(self, ray: Any, run: Run, encoders: int | None):
        self.ray, self.run = ray, run
        resources = ray.cluster_resources()
        self.gpus = int(resources.get("GPU", 0))
        cpus = int(resources.get("CPU", 1))
        self.encoders = encoders or self.gpus or max(1, cpus // 3)
        self.opening = (run.pieces.address, __version__)
        actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")(Finish)
        self.finishing = [actor.remote(*self.opening) for _ in range(max(1, cpus // 8))]
        self.waiting: dict[Any, int] = {}  # what a finishing actor will answer, and for which video

    def work(self) -> None:
        try:
            self.ray.get([actor.open.remote() for actor in self.finishing])
            for row in self._rows():
                arrived = self.run.take(row)
                if arrived is not None:
                    self._finish(arrived)
                self._collect(at_most=_AHEAD * len(self.finishing))
            self._collect(at_most=0)
        finally:
            for actor in self.finishing:
                self.ray.kill(actor)
        if self.run.open:
            raise ClusterError(f"the cluster lost {len(self.run.open)} videos on the way: run it again to go on")

    def _rows(self) -> Iterator[Row]:
        import ray.data as data

        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        _hush()
        encoder = self.run.adder.tracks()[FRAMES].encoder
        assert isinstance(encoder, Encoder)
        todo = self.run.open
        items = [
            {"video": number, "path": str(self.run.jobs[number].source.path), "key": self.run.jobs[number].key}
            for number in todo
        ]
        decode = Decode(self.opening[0], encoder.fit, encoder.batch, self.run.adder.rate)
        stages = data.from_items(items, override_num_blocks=min(len(items), _BLOCKS)).flat_map(decode, num_cpus=1)
        pool = data.ActorPoolStrategy(min_size=1, max_size=self.encoders)
        stages = stages.map(
            EncodeFrames,
            fn_constructor_args=self.opening,
            compute=pool,
            num_cpus=0,  # it never waits for a place: the last node that is left can do both
            **({"num_gpus": 1} if self.gpus else {}),
        )
        yield from stages.iter_rows()

    def _finish(self, arrived: Arrived) -> None:
        number, job = arrived.number, self.run.jobs[arrived.number]
        if arrived.ending.failed is not None:
            self.run.finished(number, arrived.ending.failed)
            return
        actor = self.finishing[number % len(self.finishing)]
        self.waiting[actor.finish.remote(job.key, job.video, arrived.ending, arrived.chunks)] = number

    def _collect(self, at_most: int) -> None:
        """Take what has been finished; wait while more than ``at_most`` are not."""
        while self.waiting:
            timeout = None if len(self.waiting) > at_most else 0
            done, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=timeout)
            if not done:
                return
            for answer in done:
                number = self.waiting.pop(answer)
                self.run.finished(number, self.ray.get(answer))


def _hush() -> None:
    """Ray Data tells its plans on standard error; problems are still told."""
    for name in ("ray.data", "ray.data._internal", "ray"):
        logging.getLogger(name).setLevel(logging.ERROR)
