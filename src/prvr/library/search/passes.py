"""One pass over the vectors of a track, in pieces that the cores take in turn.

A matrix library cuts each product into equal shares and waits for the slowest: a core that has something else to do
for a moment (answering a request, say) holds up all of them, product after product. Pieces of some thousand pages need
no such waiting. Whoever is free takes the next.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.scoring import Gallery
from prvr.scoring.engines import Engine, score_parts
from prvr.scoring.engines.common import Scores, video_slices

_SMALLEST = 512  # pages of a piece, below which handing it out costs more than it saves
_EACH = 4  # pieces for each core
_FEW = 256  # pages that are copied together

Item = TypeVar("Item")
Result = TypeVar("Result")
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def score_galleries(queries: Tensor, galleries: Sequence[Gallery]) -> list[Scores]:
    """Score (Q, D) queries against several galleries, with all cores that torch may use."""
    cores = torch.get_num_threads()
    pages = sum(gallery.local.shape[0] for gallery in galleries)
    step = max(_SMALLEST, -(-pages // (_EACH * cores)))
    pieces = [
        (number, part)
        for number, gallery in enumerate(galleries)
        for part in (video_slices(gallery, step) if gallery.device.type == "cpu" else [slice(0, len(gallery))])
    ]
    if cores == 1:
        return [score_parts(queries, gallery, _engine(gallery)) for gallery in galleries]

    def of_piece(piece: tuple[int, slice]) -> Scores:
        gallery = galleries[piece[0]]
        return score_parts(queries, gallery[piece[1]], _engine(gallery))

    found: list[list[Scores]] = [[] for _ in galleries]
    for (number, _), scores in zip(pieces, spread(of_piece, pieces), strict=True):
        found[number].append(scores)
    return [_joined(parts) for parts in found]


def score_rows(queries: Tensor, chosen: Sequence[tuple[Gallery, NDArray[np.int64]]]) -> list[Scores]:
    """Score (Q, D) queries against some rows of each gallery, which are copied together a few at a time."""
    pieces = [
        (number, gallery, rows) for number, (gallery, wanted) in enumerate(chosen) for rows in _few(gallery, wanted)
    ]

    def of_piece(piece: tuple[int, Gallery, list[int]]) -> Scores:
        _, gallery, rows = piece
        return score_parts(queries, gallery.take(rows), _engine(gallery))

    found: list[list[Scores]] = [[] for _ in chosen]
    for (number, _, _), scores in zip(pieces, spread(of_piece, pieces), strict=True):
        found[number].append(scores)
    return [_joined(parts) for parts in found]


def _few(gallery: Gallery, rows: NDArray[np.int64]) -> Iterator[list[int]]:
    """Rows in groups of some pages each."""
    pages = gallery.first_page.diff().numpy()[rows]
    group = (pages.cumsum() - pages) // _FEW
    for edges in np.split(rows, np.flatnonzero(np.diff(group)) + 1):
        yield edges.tolist()


def spread(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``work`` on each item, in order; the cores that torch may use take one item after the other."""
    cores = torch.get_num_threads()
    return [work(item) for item in items] if cores == 1 else [*_threads(cores).map(work, items)]


def _engine(gallery: Gallery) -> Engine:
    return "torch" if gallery.device.type == "cpu" else "auto"


def _joined(parts: list[Scores]) -> Scores:
    if len(parts) == 1:
        return parts[0]
    trace = [part.trace for part in parts if part.trace is not None]
    return Scores(torch.cat([part.base for part in parts], 1), torch.cat(trace, 1) if trace else None)


def _threads(cores: int) -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(cores, "prvr-pass", initializer=torch.set_num_threads, initargs=(1,))
            together = threading.Barrier(cores)
            list(_pool.map(lambda _: together.wait(), range(cores)))  # all of them are there, each with one core
            torch.set_num_threads(cores)  # what they set is also the default of threads that come later
        return _pool


def _forget() -> None:
    """A forked process has none of these threads."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
