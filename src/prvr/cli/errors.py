"""How a command fails: one sentence on stderr and an exit code, never a traceback for what a user can fix."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text
from safetensors import SafetensorError

from prvr.errors import UserError
from prvr.training import Interrupted


def guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command; turn errors a user can fix into one line."""
    try:
        return command(argv)
    except (Interrupted, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        return 141
    except UserError as error:
        fail(str(error))
        return 1
    except SafetensorError as error:  # how that library reports what the disk said
        fail(f"a file could not be written or read: {error}")
        return 1
    except OSError as error:  # disk full, no permission, a path that is no folder
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1


def fail(message: str) -> None:
    """Print an error line to stderr; what a file's text holds of half characters must not keep it from being said."""
    message = message.encode("utf-8", "backslashreplace").decode()
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message), soft_wrap=True)
