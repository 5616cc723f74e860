"""Which videos train together, and making the next batch while the current one trains."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

_Batch = TypeVar("_Batch")


def epoch_batches(
    num_videos: int, batch_size: int, *, seed: int, epoch: int, rank: int = 0, world: int = 1
) -> list[Tensor]:
    """The video rows of every batch of an epoch, each (≤ batch_size,).

    The order depends only on ``seed`` and ``epoch``, so a resumed run continues with the same batches. Of each batch,
    process ``rank`` of ``world`` gets every ``world``-th row. The last, short batch is kept unless it has fewer than
    two videos (no negatives) or fewer videos than there are processes.

    >>> [len(rows) for rows in epoch_batches(10, 4, seed=0, epoch=0)]
    [4, 4, 2]
    >>> [len(rows) for rows in epoch_batches(9, 4, seed=0, epoch=0)]
    [4, 4]
    """
    if batch_size < max(2, world):
        raise ValueError(
            f"a batch of {batch_size} over {world} processes is too small; it needs {max(2, world)} videos"
        )
    order = torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(num_videos))
    return [rows[rank::world] for rows in torch.split(order, batch_size) if len(rows) >= max(2, world)]


def prefetch(batches: Iterable[_Batch], depth: int = 2) -> Generator[_Batch, None, None]:
    """Yield ``batches`` in order while a thread works up to ``depth`` of them ahead.

    Pass a lazy iterable, such as ``map(dataset.train_batch, rows)``. An exception in the thread is raised here, after
    the batches before it. Closing the generator (or leaving the loop and dropping it) stops the thread.
    """
    ready: queue.Queue[_Item[_Batch] | _End] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: _Item[_Batch] | _End) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for batch in batches:
                if not put(_Item(batch)):
                    return
        except BaseException as error:  # passed to the consumer, which raises it
            put(_End(error))
        else:
            put(_End(None))

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(item := ready.get(), _Item):
            yield item.batch
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class _Item(Generic[_Batch]):
    batch: _Batch


@dataclass(frozen=True)
class _End:
    error: BaseException | None
