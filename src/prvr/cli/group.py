"""Commands that have commands of their own: ``prvr data …``, ``prvr library …``."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def explain(prog: str, text: str, commands: Mapping[str, type], asked: str) -> int:
    """One line for each command of a group, where ``asked`` is none of them; the exit status."""
    mistaken = asked not in ("", "-h", "--help")
    console = Console(stderr=mistaken)
    if mistaken:
        console.print(f"{prog}: no command {asked!r}\n", markup=False, highlight=False)
    console.print(text.replace("``", ""), f"\nUsage: {prog} COMMAND … (each has its own --help)\n", sep="")
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, command in commands.items():
        first_line = f"{command.__doc__}".strip().splitlines()[0]
        table.add_row(f"  [bold]{name}[/]", first_line)
    console.print(table)
    return 2 if mistaken else 0
