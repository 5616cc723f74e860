"""``prvr demo``: everything on a small world made on the spot, in a few minutes on two cores."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from prvr.cli import demo_features, demo_rendered
from prvr.library import Library
from prvr.media.errors import MissingExtra
from prvr.training import Interrupted, RunError

_MARK = ".prvr-demo"


@dataclass(frozen=True)
class DemoArguments:
    """Draw small films, train on them, index others with the trained model, search them, open the page.

    It ends with the page in a browser where the output is a terminal. In the environment, DEMO_SERVE=0: end without
    it; DEMO_SERVE=1: serve it in any case. Ctrl-C stops it at any time.
    """

    out: Path = Path("demo")
    """folder for all of it; an earlier demo in it is replaced"""
    world: Literal["rendered", "features"] = "rendered"
    """rendered: real .mp4 files, drawn here, up to the search page; features: feature files alone, base and TRACE"""
    workers: int = 2
    """processes that draw and read films"""


def main(argv: list[str]) -> int:
    arguments = tyro.cli(DemoArguments, prog="prvr demo", args=argv)
    console, started = Console(), time.perf_counter()
    out = _fresh(arguments.out)
    library: Library | None = None
    try:
        if arguments.world == "rendered":
            library = demo_rendered.run(out, console, arguments.workers)
        else:
            demo_features.run(out, console)
    except (KeyboardInterrupt, Interrupted):
        console.print("stopped; the next `prvr demo` begins anew", highlight=False)
        raise
    console.print(
        f"\n[bold]done in {time.perf_counter() - started:.0f} s.[/] A toy world shows that the machinery works,"
    )
    console.print("not how good a method is: docs/findings.md says what was measured so far.")
    if library is not None:
        _page(library, console)
    return 0


def _page(library: Library, console: Console) -> None:
    """The library in the browser, where somebody is there to look at it; else how to open it."""
    command = f"prvr serve {library.folder}"
    wanted = os.environ.get("DEMO_SERVE") or ("1" if sys.stdout.isatty() else "0")
    if wanted == "0":
        console.print(f"\nsearch it in a browser: {command}", highlight=False, markup=False, soft_wrap=True)
        return
    try:
        from prvr.cli.serve import open_page
        from prvr.server import ServerOptions
    except MissingExtra as problem:
        console.print(f"\n{problem}, then: {command}", highlight=False, markup=False, soft_wrap=True)
        return
    console.print()
    open_page(library, ServerOptions(port=0))


def _fresh(out: Path) -> Path:
    """An empty folder; only one that an earlier demo made is emptied."""
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise RunError(f"{out} is not empty and was not made by a demo: choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    return out
