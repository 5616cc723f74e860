"""A bar while videos are decoded and encoded; lines from time to time where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn

from prvr.cli.console import format_time, shown_name
from prvr.library import AddProgress
from prvr.terminal import Console

_LOG_SECONDS = 30.0  # between lines where no terminal shows a bar


@contextmanager
def encoding_progress() -> Iterator[tuple[Console, Callable[[AddProgress], None]]]:
    """The console to print on meanwhile, and what shows progress."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[note]}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("looking for videos", total=None, note="")
        last_line = time.monotonic()

        def show(now: AddProgress) -> None:
            nonlocal last_line
            name, left = shown_name(now.path.name), "" if now.left is None else f" · {format_time(now.left)} left"
            note = f"{now.files_done + 1}/{now.files} · {now.speed:.0f} × real time{left}"
            if now.heard is not None:
                note += f" · speech until {format_time(now.heard)}"
            if not bar.console.is_terminal and time.monotonic() - last_line > _LOG_SECONDS:
                last_line = time.monotonic()
                bar.console.print(f"{name}: {note}", highlight=False, soft_wrap=True)
            bar.update(task, description=name, total=now.bytes, completed=now.bytes_done, note=note)

        yield console, show
