"""The console that commands print on: names of files cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from prvr.errors import printable


class Console(RichConsole):
    """Rich's console. Control characters inside texts, cells and progress bars are escaped: ``\\x1b``.

    >>> import io
    >>> written = io.StringIO()
    >>> Console(file=written).print("a\\x1b[2Jb", markup=False)
    >>> written.getvalue()
    'a\\\\x1b[2Jb\\n'
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else printable(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)
