"""How a command fails: one line on stderr and an exit code, without a traceback for what a person can fix."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.text import Text

from prvr.errors import Interrupted, UserError
from prvr.terminal import READER_GONE, Console, discard_output


class _Terminated(KeyboardInterrupt):
    """SIGTERM has arrived, which ends a command as Ctrl-C does."""


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, with which services and batch systems stop a process, do what Ctrl-C does. A second is ignored."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Terminated

    usual = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if usual:
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and return its exit code; print an error that a person can fix as one line."""
    try:
        with _sigterm_as_interrupt():
            try:
                return command(argv)
            finally:  # also after --help, which ends with SystemExit
                _flush_output()
    except _Terminated:
        return 143
    except (Interrupted, KeyboardInterrupt) as stopped:
        return 128 + _signal_of(stopped)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        _discard_broken_output()
        return READER_GONE
    except UserError as error:
        print_error(str(error))
        return 1
    except _safetensor_error() as error:  # how safetensors reports a disk error
        print_error(f"a file could not be written or read: {error}")
        return 1
    except OSError as error:  # disk full, no permission, a path that is not a folder
        print_error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1


def _signal_of(stopped: BaseException) -> int:
    """The number of the signal that stopped a training, which it knows, or anything else."""
    return stopped.args[0] if isinstance(stopped, Interrupted) and stopped.args else signal.SIGINT


def _flush_output() -> None:
    """Write what is still held back, while an error can be told."""
    for stream in _outputs():
        stream.flush()


def _discard_broken_output() -> None:
    for stream in _outputs():
        try:
            stream.flush()
        except BrokenPipeError:
            discard_output(stream)


def _outputs() -> list[TextIO]:
    """Those of standard output and error that are open; a stream is None if the command was started with ``>&-``."""
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None and not stream.closed]


def _safetensor_error() -> type[Exception]:
    """Imported only when something fails: most commands need no safetensors."""
    from safetensors import SafetensorError

    return SafetensorError


def print_error(message: str) -> None:
    """Print an error line to stderr."""
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message), soft_wrap=True)
