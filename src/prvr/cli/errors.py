"""How a command fails: one line on stderr and an exit code, without a traceback for what a person can fix."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text
from safetensors import SafetensorError

from prvr.errors import Interrupted, UserError


def guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and return its exit code; print an error that a person can fix as one line."""
    try:
        return command(argv)
    except (Interrupted, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        return 141
    except UserError as error:
        print_error(str(error))
        return 1
    except SafetensorError as error:  # how safetensors reports a disk error
        print_error(f"a file could not be written or read: {error}")
        return 1
    except OSError as error:  # disk full, no permission, a path that is not a folder
        print_error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1


def print_error(message: str) -> None:
    """Print an error line to stderr. Text that cannot be encoded, as in odd file names, is escaped."""
    message = message.encode("utf-8", "backslashreplace").decode()
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message), soft_wrap=True)
