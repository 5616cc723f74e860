"""Sections of a report on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from prvr.cli.console import print_table
from prvr.evaluation import ReportSection, ReportTable
from prvr.terminal import Console

_MARKS = {True: ("holds", "green"), False: ("fails", "red"), None: ("open", "yellow")}


def print_section(section: ReportSection, console: Console) -> None:
    """Print the title, tables and verdicts of a section."""
    console.print(Text(f"\n{section.title}", style="bold"))
    if section.absent or section.lead:
        console.print(Text(section.absent or section.lead, style="dim"))
    for table in section.tables:
        print_table(console, _rich(table))
    print_verdicts([section], console)


def print_verdicts(sections: Sequence[ReportSection], console: Console) -> None:
    """Print each expectation of the sections and whether it holds."""
    for section in sections:
        for verdict in section.verdicts:
            word, colour = _MARKS[verdict.holds]
            console.print(
                Text.assemble((f"{word:>5}  ", colour), f"{section.title}: " if len(sections) > 1 else "", verdict.text)
            )


def _rich(table: ReportTable) -> Table:
    drawn = Table(box=SIMPLE_HEAD, title=Text(table.title), title_justify="left", caption_justify="left")
    drawn.caption = Text(table.note) if table.note else None
    for number, column in enumerate(table.columns):
        words = table.is_text(number)
        drawn.add_column(Text(column.title), justify="left" if words else "right", no_wrap=not words)
    for row, cells in enumerate(table.shown()):
        drawn.add_row(*(Text(cell, style="bold" if row in table.strong else "") for cell in cells))
    return drawn
