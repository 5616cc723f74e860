"""Start Python processes that import nothing from the working folder, and run the same work on several cores."""

# ruff: noqa: S301 (pickles travel between this process and those that it started itself; none lies on a disk)

from __future__ import annotations

import multiprocessing.spawn
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from traceback import format_exc
from typing import IO, Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8  # items handed to the pool for each worker before the first result is awaited
_MAIN_MODULE = ("init_main_from_name", "init_main_from_path")  # of ``multiprocessing.spawn.get_preparation_data``


def import_path() -> list[str]:
    """``sys.path`` without the working folder, which may hold files that other people made.

    ``python -m`` and ``python -c`` put that folder first, so that a file ``av.py`` in it would be run in the place of
    the module ``av``. The folder stays where a person chose it: it is named in ``PYTHONPATH``, or this package itself
    was imported from it.
    """
    try:
        working = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # the folder was deleted
        return [entry for entry in sys.path if entry]
    chosen = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    chosen.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    keep = working in map(os.path.realpath, chosen)
    return [entry for entry in sys.path if entry and (keep or os.path.realpath(entry) != working)]


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line of ``python -m module arguments``, with modules found by ``import_path`` alone.

    Python 3.11 has the flag ``-P`` for this; the program given to ``-c`` does the same on 3.10.
    """
    program = (
        f"import sys; sys.path[:] = {import_path()!r}; "
        f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", program, *arguments]


def map_in_processes(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int = 1
) -> Iterator[_Result]:
    """``map(function, items)``, by several processes where ``workers`` is above one; results come in order.

    Function, items and results are pickled. Ctrl-C reaches the caller only, who then stops the workers.

    Raises:
        Exception: what the function raised for the first item that failed.
        RuntimeError: a worker died, for example because memory ran out.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    main = sys.modules["__main__"]
    if sys.modules.get("__mp_main__", main) is not main:  # a worker is importing the script that started it
        raise RuntimeError(
            "this script starts workers when it is imported: put its work below if __name__ == '__main__'"
        )
    crew: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def work(item: _Item) -> Any:
        worker = idle.get()
        try:
            return worker.call(item)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(workers, "prvr-worker")
    try:
        for _ in range(workers):
            crew.append(_Worker(function))
            idle.put(crew[-1])
        left = iter(items)
        waiting = [threads.submit(work, item) for item in islice(left, workers * _AHEAD)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [threads.submit(work, item) for item in islice(left, 1)]
    finally:
        for worker in crew:
            worker.kill()
        threads.shutdown(cancel_futures=True)
        for worker in crew:
            worker.close()


class _Worker:
    """A process that applies one function to items, one at a time."""

    def __init__(self, function: Callable[[Any], Any]):
        self._process = subprocess.Popen(
            python_command("prvr.processes"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        main = multiprocessing.spawn.get_preparation_data("worker")
        self._introduction: list[Any] = [{name: main[name] for name in _MAIN_MODULE if name in main}, function]

    def call(self, item: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = b"".join(pickle.dumps(value) for value in (*self._introduction, item))
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            succeeded, result, report = pickle.load(self._process.stdout)
        except (OSError, EOFError):
            status = self._process.wait()
            raise RuntimeError(f"a worker process died (exit status {status}); memory may have run out") from None
        self._introduction = []
        if succeeded:
            return result
        raise result from RuntimeError(f"in a worker process:\n{report}")

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Wait for the end of a killed process and close its pipes."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was still to be written has no reader any more
                pipe.close()


def _answer_requests(requests: IO[bytes], answers: IO[bytes]) -> None:
    """The worker's side: read the main module and the function, then items, until the caller closes the pipe."""
    with suppress(EOFError, BrokenPipeError):
        multiprocessing.spawn.prepare(pickle.load(requests))
        function = pickle.load(requests)
        while True:
            answers.write(_answer(function, pickle.load(requests)))
            answers.flush()


def _answer(function: Callable[[Any], Any], item: Any) -> bytes:
    """Pickled: whether a call succeeded, its result or its error, and the traceback."""
    try:
        return pickle.dumps((True, function(item), ""))
    except Exception as error:
        report = format_exc()
        try:
            answer = pickle.dumps((False, error, report))
            pickle.loads(answer)
        except Exception:  # an error that cannot travel
            return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"), report))
        return answer


if __name__ == "__main__":
    _answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed on the way is not an answer
    _answer_requests(sys.stdin.buffer, _answers)
