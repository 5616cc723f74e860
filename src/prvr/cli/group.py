"""Commands that have commands of their own: ``prvr data …``, ``prvr library …``."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def print_group_help(prog: str, text: str, commands: Mapping[str, type]) -> None:
    """One line for each command of a group."""
    console = Console()
    console.print(text.replace("``", ""), f"\nUsage: {prog} COMMAND … (each has its own --help)\n", sep="")
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, command in commands.items():
        first_line = f"{command.__doc__}".strip().splitlines()[0]
        table.add_row(f"  [bold]{name}[/]", first_line)
    console.print(table)
