"""How commands print tables, steps, times and sizes."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from prvr.errors import printable
from prvr.terminal import Console

if TYPE_CHECKING:
    from prvr.evaluation import ReportTable

UNLIMITED = 100_000  # columns: cells are never wrapped
_TABLE_WIDTH = 100  # a narrower terminal wraps whole lines, which reads better than wrapped cells


def print_table(console: Console, table: RenderableType, width: int = _TABLE_WIDTH) -> None:
    """Print a table, at least ``width`` columns wide if it needs them.

    Where no terminal shows it (a pipe or a file), no cell is wrapped at all: each row is one line.
    """
    widest = max(console.width, width) if console.is_terminal else UNLIMITED
    for line in console.render_lines(table, console.options.update(max_width=widest), pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line if not part.control))
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def report_table(table: ReportTable) -> Table:
    """A table of a report, as the terminal shows it."""
    drawn = Table(box=SIMPLE_HEAD, title=Text(table.title), title_justify="left", caption_justify="left")
    drawn.caption = Text(table.note) if table.note else None
    for number, column in enumerate(table.columns):
        words = table.is_text(number)
        drawn.add_column(Text(column.title), justify="left" if words else "right", no_wrap=not words)
    for row, cells in enumerate(table.shown()):
        bold = [row in table.strong or (row, place) in table.best for place in range(len(cells))]
        plain = "dim" if row in table.soft else ""
        drawn.add_row(*(Text(cell, style="bold" if own else plain) for cell, own in zip(cells, bold, strict=True)))
    return drawn


def shown_name(path: PurePath | str) -> str:
    """The name of a file, as it is shown: control characters and ends of lines are escaped.

    >>> shown_name("a\\nb.mp4")
    'a\\\\nb.mp4'
    """
    return printable(str(path), one_line=True)


def count(number: int, what: str) -> str:
    """A number of things.

    >>> count(1, "video"), count(2, "video")
    ('1 video', '2 videos')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_step(console: Console, number: int, of: int, text: str) -> None:
    """Print the heading of one of several steps."""
    console.print(f"\n[bold cyan]{number}/{of}[/] [bold]{text}[/]", highlight=False, markup=True, soft_wrap=True)


def format_time(seconds: float, digits: int = 0) -> str:
    """Hours, minutes and seconds, as a player shows them.

    >>> format_time(75.4), format_time(7322), format_time(59.97, 1)
    ('1:15', '2:02:02', '1:00.0')
    """
    minutes, second = divmod(round(seconds, digits), 60)
    hours, minute = divmod(int(minutes), 60)
    shown = f"{second:0{3 + digits if digits else 2}.{digits}f}"
    return f"{hours}:{minute:02d}:{shown}" if hours else f"{minute}:{shown}"


def format_bytes(number: float) -> str:
    """
    >>> format_bytes(1_234_567)
    '1.23 MB'
    """
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
