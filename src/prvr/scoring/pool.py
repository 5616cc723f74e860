"""Scoring several galleries on all cores of a CPU, in pieces that the cores take in turn.

A matrix library cuts each product into equal shares, one for each core, and waits for the slowest. One busy core (it
answers a request, for example) delays every product. Pieces of a few thousand pages do not wait for each other: a free
core takes the next one.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.scoring.engines import Engine, ScoringEngine, score_parts
from prvr.scoring.engines.common import Scores, video_slices
from prvr.scoring.engines.factorised import FactorisedEngine
from prvr.scoring.evidence import AlignedPairs, GalleryEvidence, chunk_evidence, evidence_chunks, joined_chunks
from prvr.scoring.gallery import Gallery

SMALLEST_PIECE = 1 << 25  # numbers, below which handing out a piece costs more than it saves
PIECES_PER_CORE = 4
PAGES_COPIED = 256  # pages of chosen rows that are copied together

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ScoringPool:
    """Threads that score, one for each core that torch may use. They are started when first needed.

    A pool may be used from several threads at once, and after a fork: the child starts its own threads. ``close``
    ends the threads; so does dropping the last reference to the pool.
    """

    def __init__(self, *, smallest_piece: int = SMALLEST_PIECE, pages_copied: int = PAGES_COPIED) -> None:
        self._smallest_piece = smallest_piece
        self._pages_copied = pages_copied
        self._threads = OneCoreThreads("prvr-score")
        self._of_thread = threading.local()

    def score(self, queries: Tensor, galleries: Sequence[Gallery]) -> list[Scores]:
        """Score (Q, D) queries against several galleries."""
        cores = torch.get_num_threads()
        if cores == 1:
            return [score_parts(queries, gallery, self._engine(gallery)) for gallery in galleries]
        share = sum(math.prod(gallery.local.shape) for gallery in galleries) // (PIECES_PER_CORE * cores)
        pieces = [
            (number, part)
            for number, gallery in enumerate(galleries)
            for part in self._slices(gallery, max(self._smallest_piece, share))
        ]

        def score_piece(piece: tuple[int, slice]) -> Scores:
            gallery = galleries[piece[0]]
            return score_parts(queries, gallery[piece[1]], self._engine(gallery))

        return _collected(len(galleries), [number for number, _ in pieces], self.map(score_piece, pieces))

    @staticmethod
    def _slices(gallery: Gallery, numbers: int) -> Iterable[slice]:
        """A gallery's videos in parts of about so many numbers; on a GPU all in one."""
        if gallery.device.type != "cpu":
            return [slice(0, len(gallery))]
        return video_slices(gallery, -(-numbers // math.prod(gallery.local.shape[1:])))

    def score_rows(self, queries: Tensor, chosen: Sequence[tuple[Gallery, NDArray[np.int64]]]) -> list[Scores]:
        """Score (Q, D) queries against chosen rows of each gallery, which are copied together a few at a time."""
        pieces = [
            (number, gallery, rows)
            for number, (gallery, all_rows) in enumerate(chosen)
            for rows in _row_groups(gallery, all_rows, self._pages_copied)
        ]

        def score_piece(piece: tuple[int, Gallery, list[int]]) -> Scores:
            _, gallery, rows = piece
            return score_parts(queries, gallery.take(rows), self._engine(gallery))

        return _collected(len(chosen), [number for number, _, _ in pieces], self.map(score_piece, pieces))

    def evidence(self, groups: Sequence[AlignedPairs]) -> list[GalleryEvidence]:
        """``gallery_evidence`` of each group of pairs."""
        chunks = [evidence_chunks(pairs) for pairs in groups]
        pieces = [(pairs, chunk) for pairs, of_group in zip(groups, chunks, strict=True) for chunk in of_group]

        def look(piece: tuple[AlignedPairs, list[int]]) -> GalleryEvidence:
            return chunk_evidence(*piece, self._torch_engine().workspace)

        parts = iter(self.map(look, pieces))
        return [joined_chunks(of_group, [next(parts) for _ in of_group]) for of_group in chunks]

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """``work`` on each item, in order; the cores that torch may use take one item after the other."""
        cores = torch.get_num_threads()
        return [work(item) for item in items] if cores == 1 else [*self._threads.executor(cores).map(work, items)]

    def close(self) -> None:
        """End the threads. A pool that is used again starts new ones."""
        self._threads.close()

    def _engine(self, gallery: Gallery) -> Engine | ScoringEngine:
        return self._torch_engine() if gallery.device.type == "cpu" else "auto"

    def _torch_engine(self) -> FactorisedEngine:
        """This thread's engine, whose buffers serve piece after piece."""
        if not hasattr(self._of_thread, "engine"):
            self._of_thread.engine = FactorisedEngine()
        engine: FactorisedEngine = self._of_thread.engine
        return engine


class OneCoreThreads:
    """Threads in each of which torch uses one core. In all others, it uses as many as before.

    They are started when they are first asked for, by any other thread, and again after a fork: the child has none.
    """

    def __init__(self, name: str) -> None:
        _renew_lock_after_forks()
        self.name = name
        self._process = os.getpid()
        self._executor: ThreadPoolExecutor | None = None

    def executor(self, count: int) -> ThreadPoolExecutor:
        """The threads; there are as many as were first asked for."""
        with _starting:
            if self._executor is None or self._process != os.getpid():
                self._process, self._executor = os.getpid(), _one_core_threads(count, self.name)
            return self._executor

    def close(self) -> None:
        """End the threads. New ones start when they are asked for again."""
        with _starting:
            executor, self._executor = self._executor, None
        if executor is not None and self._process == os.getpid():
            executor.shutdown()


_starting = threading.Lock()  # held while threads are started: torch's default number of cores is not the usual one


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()  # a thread of the parent may have held the other when it forked


@cache
def _renew_lock_after_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_renew_lock)


def _one_core_threads(count: int, name: str) -> ThreadPoolExecutor:
    usual = torch.get_num_threads()
    threads = ThreadPoolExecutor(count, name, initializer=_use_one_core)
    together = threading.Barrier(count)
    list(threads.map(lambda _: together.wait(), range(count)))  # all have started
    torch.set_num_threads(usual)  # what they set is also the default of threads that come later
    return threads


def _use_one_core() -> None:
    torch.get_num_threads()  # a new thread takes over the default now; else its first product would do so
    torch.set_num_threads(1)


def _row_groups(gallery: Gallery, rows: NDArray[np.int64], pages_each: int) -> Iterator[list[int]]:
    """Rows in groups of about this many pages."""
    pages = gallery.first_page.diff().numpy()[rows]
    group = (pages.cumsum() - pages) // pages_each
    for edges in np.split(rows, np.flatnonzero(np.diff(group)) + 1):
        yield edges.tolist()


def _collected(count: int, owners: Sequence[int], parts: Sequence[Scores]) -> list[Scores]:
    """Scores of pieces, joined by the gallery that each piece is of."""
    of_gallery: list[list[Scores]] = [[] for _ in range(count)]
    for owner, part in zip(owners, parts, strict=True):
        of_gallery[owner].append(part)
    return [_joined(parts) for parts in of_gallery]


def _joined(parts: Sequence[Scores]) -> Scores:
    if len(parts) == 1:
        return parts[0]
    trace = [part.trace for part in parts if part.trace is not None]
    return Scores(torch.cat([part.base for part in parts], 1), torch.cat(trace, 1) if trace else None)
