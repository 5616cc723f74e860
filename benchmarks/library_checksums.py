"""``python benchmarks/library_checksums.py``: what the checksums of a library cost in add, search and verify.

    python benchmarks/library_checksums.py --videos 200 --minutes 10      # 0.13 GB

The library is that of ``library_search.py``: nothing is decoded, so a commit is nearly all that adding does here.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import library_search as synthetic
import numpy as np
from rich.console import Console

from prvr.lake import create_library, open_library
from prvr.library import LibrarySettings, SearchRequest
from prvr.library.store import arrays
from prvr.library.store.sections import MappedSections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each video, at one frame per second")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--searches", type=int, default=50)
    args = parser.parse_args()
    console = Console(highlight=False)
    overrides = {"frames": synthetic.SyntheticEncoder(args.width)}
    with tempfile.TemporaryDirectory() as scratch:
        address = str(Path(scratch) / "library")
        lib = create_library(address, LibrarySettings("synthetic"), overrides)
        with added_up(arrays, "section_checksum") as summing, added_up(lib.store, "commit") as committing:
            synthetic.fill(lib, args.videos, round(60 * args.minutes))
        size = lib.status().bytes / 1e6
        console.print(
            f"{args.videos} videos, {size:.0f} MB: commits {committing[0]:.2f} s, of which checksums {summing[0]:.2f} s"
        )
        began = time.perf_counter()
        assert lib.verify().ok
        seconds = time.perf_counter() - began
        console.print(f"verify {seconds:.2f} s, {size / seconds:.0f} MB/s")
        request = SearchRequest("0")
        for name, damaged in (("with", MappedSections.damaged), ("without", lambda *_: set())):
            with mock.patch.object(MappedSections, "damaged", damaged):
                times = 1000 * np.array(synthetic.timed(open_library(address, overrides), request, args.searches))
            console.print(
                f"search {name} checksums of its hits: first {times[0]:.1f} ms, median {np.median(times):.2f} ms"
            )


@contextmanager
def added_up(place: object, name: str) -> Iterator[list[float]]:
    """The seconds that a function takes in all."""
    function, total = getattr(place, name), [0.0]

    def timed(*words: object) -> object:
        began = time.perf_counter()
        try:
            return function(*words)
        finally:
            total[0] += time.perf_counter() - began

    with mock.patch.object(place, name, timed):
        yield total


if __name__ == "__main__":
    main()
