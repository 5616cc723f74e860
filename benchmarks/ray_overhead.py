"""``python benchmarks/ray_overhead.py``: what it costs to add videos through Ray on one machine.

The same rendered films are added to fresh lakes, without Ray and with `--cluster local`, in turn. The start of Ray and
of its workers takes the same time for one film as for a million, so it is measured with one film and shown apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from prvr.lake import add_on_cluster, create_library
from prvr.worlds import RENDERED_SIZES, render_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=60, help="films that are added")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are shown")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="processes that index, with Ray")
    args = parser.parse_args()
    ways = [None, *args.workers]
    config = replace(RENDERED_SIZES["demo"], train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        films = sorted(render_world(Path(folder) / "films", config, workers=2).videos.values())[: args.films]
        seconds: dict[tuple[int | None, int], list[float]] = {}
        for number in range(args.rounds):
            for workers in ways:
                for count in (1, len(films)):
                    lake = f"{folder}/{number}-{workers}-{count}.lance"
                    seconds.setdefault((workers, count), []).append(added(lake, films[:count], workers))
    table = Table("way", "one film", "all films", "all, without the start", "against without Ray")
    usual = _rest(seconds, None, len(films))
    for workers in ways:
        rest = _rest(seconds, workers, len(films))
        one, every = median(seconds[workers, 1]), median(seconds[workers, len(films)])
        name = "without Ray" if workers is None else f"Ray, {workers} worker{'s' if workers > 1 else ''}"
        table.add_row(name, f"{one:.1f} s", f"{every:.1f} s", f"{rest:.1f} s", f"{rest / usual:.2f} ×")
    Console().print(f"{len(films)} films, medians of {args.rounds} rounds", table)


def added(lake: str, films: Sequence[Path], workers: int | None) -> float:
    """Seconds to add films to a new lake."""
    library = create_library(lake)
    began = time.perf_counter()
    if workers is None:
        report = library.add_files(films)
    else:
        report = add_on_cluster(library, library.adder(), films, "local", workers)
    assert len(report.added) == len(films)
    return time.perf_counter() - began


def _rest(seconds: dict[tuple[int | None, int], list[float]], workers: int | None, films: int) -> float:
    """Median seconds of all films but the first."""
    return median(every - one for one, every in zip(seconds[workers, 1], seconds[workers, films], strict=True))


if __name__ == "__main__":
    main()
