"""How a command fails: one line on stderr and an exit code, without a traceback for what a person can fix."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.text import Text

from prvr.errors import Interrupted, UserError
from prvr.terminal import Console


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
            return command(argv)
    except _Terminated:
        return 143
    except (Interrupted, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        return 141
    except UserError as error:
        print_error(str(error))
        return 1
    except _safetensor_error() as error:  # how safetensors reports a disk error
        print_error(f"a file could not be written or read: {error}")
        return 1
    except OSError as error:  # disk full, no permission, a path that is not a folder
        print_error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1


def _safetensor_error() -> type[Exception]:
    """Imported only when something fails: most commands need no safetensors."""
    from safetensors import SafetensorError

    return SafetensorError


def print_error(message: str) -> None:
    """Print an error line to stderr."""
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message), soft_wrap=True)
