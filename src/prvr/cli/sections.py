"""Sections of a report on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from prvr.cli.console import print_table, report_table
from prvr.evaluation import ReportSection
from prvr.terminal import Console

_MARKS = {True: ("holds", "green"), False: ("fails", "red"), None: ("open", "yellow")}


def print_section(section: ReportSection, console: Console) -> None:
    """Print the title, tables and verdicts of a section."""
    console.print(Text(f"\n{section.title}", style="bold"))
    if section.absent or section.lead:
        console.print(Text(section.absent or section.lead, style="dim"))
    for table in section.tables:
        print_table(console, report_table(table))
    print_verdicts([section], console)


def print_verdicts(sections: Sequence[ReportSection], console: Console) -> None:
    """Print each expectation of the sections and whether it holds."""
    for section in sections:
        if section.verdicts and len(sections) > 1:
            console.print(Text(section.title, style="bold"))
        for verdict in section.verdicts:
            word, colour = _MARKS[verdict.holds]
            console.print(Text.assemble((f"{word:>5}  ", colour), verdict.text))
