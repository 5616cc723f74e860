"""``prvr demo``: every step on a small dataset made on the spot, in a few minutes on two cores."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from prvr.cli.demo_features import features_demo
from prvr.cli.demo_rendered import rendered_demo
from prvr.library import Library
from prvr.media import MissingExtra
from prvr.terminal import Console
from prvr.training import Interrupted, RunError

_MARK = ".prvr-demo"


@dataclass(frozen=True)
class DemoArguments:
    """Draw small films, train on them, index others with the trained model, search them, open the page.

    In a terminal, the demo ends by serving the page; Ctrl-C stops it. The environment variable DEMO_SERVE=0 leaves the
    page out, and DEMO_SERVE=1 always serves it.
    """

    out: Path = Path("demo")
    """folder to write; an earlier demo in it is replaced"""
    world: Literal["rendered", "features"] = "rendered"
    """rendered: draws real .mp4 files and goes up to the search page; features: feature files only, base and TRACE"""
    workers: int = 2
    """number of processes that draw and read films"""


def demo_command(argv: list[str]) -> int:
    arguments = tyro.cli(DemoArguments, prog="prvr demo", args=argv)
    console, started = Console(), time.perf_counter()
    out = _fresh(arguments.out)
    library: Library | None = None
    try:
        if arguments.world == "rendered":
            library, shown = rendered_demo(out, console, arguments.workers)
        else:
            shown = features_demo(out, console)
    except (KeyboardInterrupt, Interrupted):
        console.print("stopped; the next `prvr demo` starts from the beginning", highlight=False)
        raise
    elapsed = f"{time.perf_counter() - started:.0f} s"
    console.print(f"\n{shown}", highlight=False, soft_wrap=True)
    console.print(
        f"Done in {elapsed}. Made-up data shows that every step works, not how good a method is: docs/findings.md.",
        highlight=False,
        soft_wrap=True,
    )
    if library is not None:
        _page(library, console)
    return 0


def _page(library: Library, console: Console) -> None:
    """Serve the library if the output is a terminal; else print the command that does."""
    command = f"prvr serve {library.folder}"
    serve = os.environ.get("DEMO_SERVE") or ("1" if sys.stdout.isatty() else "0")
    if serve == "0":
        console.print(f"\nsearch it in a browser: {command}", highlight=False, soft_wrap=True)
        return
    try:
        from prvr.cli.serve import open_page
        from prvr.server import ServerOptions
    except MissingExtra as problem:
        console.print(f"\n{problem}, then: {command}", highlight=False, soft_wrap=True)
        return
    console.print()
    open_page(library, ServerOptions(port=0))


def _fresh(out: Path) -> Path:
    """An empty folder. A folder is emptied only if an earlier demo made it."""
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise RunError(f"{out} is not empty and was not made by a demo: choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    return out
