"""``python benchmarks/ray_overhead.py``: what it costs to add videos through Ray on one machine.

The same rendered films are added to fresh lakes, without Ray and with `--cluster local`, in turn. The start of Ray and
of its workers takes the same time for a few films as for a million, so it is measured with one film for each core and
shown apart. A worker computes in one thread, and so does one of the ways without Ray: compare those two for the cost
of Ray itself.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from prvr.lake import add_on_cluster, create_library
from prvr.library import LibrarySettings
from prvr.worlds import RENDERED_SIZES, render_world


@dataclass
class Way:
    """A way to add films, and its seconds for a few films and for all."""

    name: str
    workers: int | None  # on Ray
    threads: int
    few: list[float] = field(default_factory=list)
    every: list[float] = field(default_factory=list)

    def add(self, lake: str, films: Sequence[Path]) -> float:
        """Seconds to add films to a new lake."""
        torch.set_num_threads(self.threads)
        library = create_library(lake, LibrarySettings("plain"))
        began = time.perf_counter()
        if self.workers is None:
            report = library.add_files(films)
        else:
            report = add_on_cluster(library, library.adder(), films, "local", self.workers)
        assert len(report.added) == len(films)
        return time.perf_counter() - began

    @property
    def rest(self) -> float:
        """Median seconds for all films but the first few."""
        return median(every - few for few, every in zip(self.few, self.every, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=120, help="films that are added")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are shown")
    args = parser.parse_args()
    cores = torch.get_num_threads()
    ways = [Way(f"without Ray, {cores} threads", None, cores), Way("without Ray, 1 thread", None, 1)]
    ways += [Way("Ray, 1 worker", 1, 1), Way(f"Ray, {cores} workers", cores, 1)]
    config = replace(RENDERED_SIZES["demo"], train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        films = sorted(render_world(Path(folder) / "films", config, workers=2).videos.values())[: args.films]
        for number in range(args.rounds):
            for way in ways:
                way.few.append(way.add(f"{folder}/{number} {way.name} few.lance", films[:cores]))
                way.every.append(way.add(f"{folder}/{number} {way.name}.lance", films))
    table = Table(
        "way", f"{cores} films", f"{len(films)} films", "difference", *(f"÷ {way.threads} threads" for way in ways[:2])
    )
    for way in ways:
        seconds = [f"{each:.1f} s" for each in (median(way.few), median(way.every), way.rest)]
        table.add_row(way.name, *seconds, *(f"{way.rest / base.rest:.2f}" for base in ways[:2]))
    Console(width=120).print(f"medians of {args.rounds} rounds", table)


if __name__ == "__main__":
    main()
