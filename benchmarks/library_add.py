"""``python benchmarks/library_add.py``: the whole `prvr library add` beside decoding alone and encoding alone.

    python benchmarks/library_add.py                       # draws films first
    python benchmarks/library_add.py --films FOLDER        # videos of yours
    python benchmarks/library_add.py --seconds 20 --json numbers.json

The same rows as `prvr bench --only encoding`, without the encoder's own; it needs no command line packages.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch

from prvr.bench import BenchmarkSizes, adding


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=Path, default=None, help="a folder with videos (default: films are drawn)")
    parser.add_argument("--count", type=int, default=12, help="films that are drawn")
    parser.add_argument("--size", type=int, nargs=2, default=(640, 360), help="width and height of drawn films")
    parser.add_argument("--length", type=float, default=30.0, help="seconds of a drawn film")
    parser.add_argument("--seconds", type=float, default=None, help="that adding should take (20; with a GPU 30)")
    parser.add_argument("--encoders", nargs="+", choices=("plain", "ViT-B/16"), default=("plain", "ViT-B/16"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, default=None, help="file to write the numbers to")
    args = parser.parse_args()
    sizes = BenchmarkSizes(
        folder=args.films,
        films=args.count,
        film_size=tuple(args.size),
        film_seconds=args.length,
        add_seconds=args.seconds,
    )
    rows, began = [], time.monotonic()
    for row in adding(torch.device(args.device), sizes, args.encoders):
        rows.append(asdict(row))
        share = "" if row.share is None else f"{row.share:6.0%}"
        memory = "" if row.memory is None else f"{row.memory / 1e6:,.0f} MB"
        print(
            f"{time.monotonic() - began:6.1f} s  {row.work:<60}{row.seconds:8.2f} s {row.rate:10.1f}/s {share} {memory}"
        )
        if row.note:
            print(f"          {row.note}", flush=True)
        if args.json is not None:
            args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
