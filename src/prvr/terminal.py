"""The console that commands print on: names of files cannot control the terminal, and ``| head`` may close it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, NoReturn

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from prvr.errors import printable

if TYPE_CHECKING:
    from rich.status import Status

READER_GONE = 141  # exit code: 128 and the number of SIGPIPE, as shells count


class Console(RichConsole):
    """Rich's console. Control characters inside texts, cells and progress bars are escaped: ``\\x1b``.

    Square brackets are what they are, because names of files may have them; ``markup=True`` reads them as styles.

    >>> import io
    >>> written = io.StringIO()
    >>> Console(file=written).print("a\\x1b[2J[b]")
    >>> written.getvalue()
    'a\\\\x1b[2J[b]\\n'
    """

    def __init__(self, *, markup: bool = False, **given: Any):
        super().__init__(markup=markup, **given)

    def status(self, status: RenderableType, **given: Any) -> Status:
        return super().status(Text(status) if isinstance(status, str) else status, **given)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else printable(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)

    def on_broken_pipe(self) -> NoReturn:
        """End the command, as Rich does, but with the exit code of a reader that went away.

        This is no BrokenPipeError: who handles an OSError, such as a full disk, would go on without output.
        """
        self.quiet = True
        discard_output(self.file)
        raise SystemExit(READER_GONE)


def discard_output(file: IO[str]) -> None:
    """Send the rest of an output nowhere, because its reader went away. Python would end with status 120 otherwise."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)
