"""``python benchmarks/library_checksums.py``: what the checksums of a library cost in add, search and verify.

    python benchmarks/library_checksums.py --videos 200 --minutes 10      # 0.13 GB

The library is that of ``library_search.py``: nothing is decoded, so a commit is nearly all that adding does here.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from pathlib import Path
from unittest import mock

import library_search as synthetic
import numpy as np
from rich.console import Console

from prvr.lake import create_library, open_library
from prvr.library import LibrarySettings, SearchRequest


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
        began = time.perf_counter()
        synthetic.fill(lib, args.videos, round(60 * args.minutes))
        filling = time.perf_counter() - began
        size = lib.status().bytes
        data = bytes(size)
        began = time.perf_counter()
        zlib.crc32(data)
        summing = time.perf_counter() - began
        console.print(
            f"{args.videos} videos, {size / 1e6:.0f} MB, filled in {filling:.2f} s; a checksum of so many bytes takes "
            f"{summing:.3f} s"
        )
        began = time.perf_counter()
        assert lib.verify().ok
        seconds = time.perf_counter() - began
        console.print(f"verify {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s")
        request = SearchRequest("0")
        kind = type(lib.snapshot().tracks["frames"])
        for name, damaged in (("with", kind.damaged), ("without", lambda *_: set())):
            with mock.patch.object(kind, "damaged", damaged):
                times = 1000 * np.array(synthetic.timed(open_library(address, overrides), request, args.searches))
            console.print(
                f"search {name} checksums of its hits: first {times[0]:.1f} ms, median {np.median(times):.2f} ms"
            )


if __name__ == "__main__":
    main()
