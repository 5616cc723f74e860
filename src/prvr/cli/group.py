"""Commands that have subcommands: ``prvr data …``, ``prvr library …``."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from prvr.cli.console import print_table
from prvr.errors import did_you_mean
from prvr.terminal import Console


def print_group_help(prog: str, text: str, commands: Mapping[str, type], word: str) -> int:
    """Print one line for each command of a group.

    Args:
        prog: the group as it is called, such as ``prvr data``.
        text: what the group is for.
        commands: a class for each command; the first line of its docstring is shown.
        word: what was typed instead of a command: nothing, ``--help`` or a mistake.

    Returns:
        The exit status.
    """
    mistaken = word not in ("", "-h", "--help")
    console = Console(stderr=mistaken)
    if mistaken:
        hint = did_you_mean(word, commands)
        console.print(f"{prog}: no command {word!r}.{hint}\n", highlight=False, soft_wrap=True)
    console.print(
        text.replace("``", ""), f"\nUsage: {prog} COMMAND … (each has its own --help)\n", sep="", soft_wrap=True
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, command in commands.items():
        first_line = f"{command.__doc__}".strip().splitlines()[0]
        table.add_row(Text(f"  {name}", "bold"), first_line)
    print_table(console, table)
    return 2 if mistaken else 0
