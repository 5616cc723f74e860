"""A progress bar for long work."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prvr.terminal import Console

_Item = TypeVar("_Item")


def show_progress(
    items: Iterable[_Item], *, total: int, label: str, done: int = 0, after: float = 2.0, show: bool = True
) -> Iterator[_Item]:
    """Yield ``items``; once they have taken ``after`` seconds, draw a bar on stderr until they end."""
    bar: Progress | None = None
    began = time.monotonic()
    try:
        for count, item in enumerate(items, start=done):
            yield item
            if bar is None and show and time.monotonic() - began > after:
                bar = _bar()
                bar.start()
                task = bar.add_task(label, total=total)
            if bar is not None:
                bar.update(task, completed=count + 1)
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
