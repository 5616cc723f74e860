"""Start Python processes that import nothing from the working folder, and run the same work on several cores."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8  # items handed to the pool for each worker before the first result is awaited


def import_path() -> list[str]:
    """``sys.path`` without the working folder, which may hold files that other people made.

    ``python -m`` and ``python -c`` put that folder first, so that a file ``av.py`` in it would be imported instead of
    the package ``av``. The folder stays if ``PYTHONPATH`` names it, or if this package itself was imported from it.
    """
    try:
        working = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # the folder was deleted
        return [entry for entry in sys.path if entry]
    chosen = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    chosen.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    keep = working in map(os.path.realpath, chosen)
    return [entry for entry in sys.path if entry and (keep or os.path.realpath(entry) != working)]


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, or as many as its container is given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such limit
        return cores


def usable_memory() -> int:
    """Bytes of memory that this process may use: those of the machine, or as many as its container is given."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Windows
        memory = 8 << 30
    try:
        return min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such limit
        return memory


def available_memory() -> int:
    """Bytes of memory that this process could still take; 4 GB where the system does not say."""
    try:
        available = _amounts("/proc/meminfo")["MemAvailable:"] << 10
    except (OSError, ValueError, KeyError):
        available = 4 << 30
    try:
        group = Path("/sys/fs/cgroup")
        most, taken = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        amounts = _amounts("/sys/fs/cgroup/memory.stat")
        files = amounts["active_file"] + amounts["inactive_file"]  # that were read, and make room when it is needed
        return min(available, most - taken + files)
    except (OSError, ValueError, KeyError):  # no such limit
        return available


def _amounts(file: str) -> dict[str, int]:
    """Names and numbers of a file of the system that has one of each in every line."""
    return {words[0]: int(words[1]) for words in map(str.split, Path(file).read_text().splitlines())}


def allow_open_files(wanted: int) -> int:
    """How many files this process may open. Raises the limit towards ``wanted`` if the system allows it."""
    try:
        import resource
    except ImportError:  # not available on Windows
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return target
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (ValueError, OSError):  # macOS has a lower limit than it tells
        return soft
    return target


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module without the working folder on its path (``python -P -m``)."""
    return [sys.executable, "-P", "-m", module, *arguments]


def map_in_processes(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int = 1
) -> Iterator[_Result]:
    """``map(function, items)`` in several processes if ``workers`` is above one. Results come in order.

    Function, items and results travel between processes, so they must be picklable. Ctrl-C reaches only the caller,
    who then stops the workers.

    Raises:
        Exception: what the function raised for the first item that failed.
        BrokenProcessPool: if a worker died, for example because memory ran out.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
    with _safe_import_path():  # the pool starts a process that tracks its resources
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)

    def submit(item: _Item) -> Future[_Result]:
        with _safe_import_path():  # a submit may start a worker
            return pool.submit(function, item)

    try:
        left = iter(items)
        waiting = [submit(item) for item in islice(left, workers * _AHEAD)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [submit(item) for item in islice(left, 1)]
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _safe_import_path() -> Iterator[None]:
    """Processes that ``multiprocessing`` starts here get ``import_path`` instead of this process's ``sys.path``."""
    path, safe = sys.path[:], os.environ.get("PYTHONSAFEPATH")
    sys.path[:], os.environ["PYTHONSAFEPATH"] = import_path(), "1"
    try:
        yield
    finally:
        sys.path[:] = path
        if safe is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
