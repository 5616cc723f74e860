"""Printing what should not be squeezed."""

from __future__ import annotations

from rich.console import Console, RenderableType

_TABLE_WIDTH = 100  # a narrower terminal breaks whole lines, which reads better than broken cells


def print_table(console: Console, table: RenderableType, width: int = _TABLE_WIDTH) -> None:
    """Print a table at a width at which its cells stay whole."""
    Console(file=console.file, width=max(console.width, width)).print(table)


def say_step(console: Console, number: int, of: int, text: str) -> None:
    """A heading of something that takes several steps."""
    console.print(f"\n[bold cyan]{number}/{of}[/] [bold]{text}[/]", highlight=False, soft_wrap=True)
