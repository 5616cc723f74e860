"""The same work on many items, on several cores: ``map`` in processes of their own, in order."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8  # items handed to each process before its results are asked for


def map_in_processes(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int = 1
) -> Iterator[_Result]:
    """``map(function, items)``; with more than one worker, function, items and results travel between processes.

    Ctrl-C reaches the caller alone, which lets the others go.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        left = iter(items)
        waiting = [pool.submit(function, item) for item in islice(left, workers * _AHEAD)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(function, item) for item in islice(left, 1)]
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
