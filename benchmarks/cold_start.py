"""``python benchmarks/cold_start.py``: how long one ``prvr search`` takes, from the command to the answer.

Each command is run in a new process, with its files in the page cache and its bytecode written, as ``pip install``
does. The library holds 16 small films and has the encoder ``plain``, so this is what every search pays before its own
work. ``import torch`` stands beside it, because a small library is searched without. Core time is user and system time
of the process: on a machine that does other things it says more than the time on the wall.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console

from prvr.library import Library
from prvr.processes import python_command
from prvr.worlds import RENDERED_SIZES, render_world

SENTENCE = "a red square moves left"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9, help="that each command is run")
    parser.add_argument("--library", help="search this library instead, with its own encoder")
    arguments = parser.parse_args(argv)
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        library = arguments.library or str(small_library(Path(folder)))
        shell = python_command("prvr", "search", "--shell", "--library", library)
        commands = {
            "Python alone": (_once("pass"), ""),
            "import numpy": (_once("import numpy"), ""),
            "import torch": (_once("import torch"), ""),
            "prvr --version": (python_command("prvr", "--version"), ""),
            "prvr search": (python_command("prvr", "search", *SENTENCE.split(), "--library", library), ""),
            "prvr search --json --group-by moment": (
                python_command("prvr", "search", SENTENCE, "--json", "--group-by", "moment", "--library", library),
                "",
            ),
            "prvr search --shell, one line": (shell, f"{SENTENCE}\n"),
            "prvr search --shell, eleven lines": (shell, f"{SENTENCE}\n" * 11),
        }
        console.print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for name, (command, lines) in commands.items():
            runs = [run(command, lines) for _ in range(arguments.times + 1)][1:]  # the first one warms up
            wall, core = zip(*runs, strict=True)
            console.print(
                f"{name}: {statistics.median(wall):.2f} s ({min(wall):.2f} to {max(wall):.2f}), "
                f"core time {statistics.median(core):.2f} s"
            )


def _once(statement: str) -> list[str]:
    return python_command("timeit", "--number=1", "--repeat=1", statement)


def small_library(folder: Path) -> Path:
    """A library of 16 small films."""
    films = render_world(folder / "films", RENDERED_SIZES["tiny"])
    Library.create(folder / "library", encoder="plain").add([films.folder])
    return folder / "library"


def run(command: list[str], lines: str) -> tuple[float, float]:
    """Seconds on the wall, and of core time, that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(
        command,
        input=lines,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
