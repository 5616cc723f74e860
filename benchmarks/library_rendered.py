"""``python benchmarks/library_rendered.py``: how well a library finds rendered films, sentences and moments.

    python benchmarks/library_rendered.py                       # 200 films, all kinds of local tokens, no training
    python benchmarks/library_rendered.py --model demo/run      # and a run of `prvr demo`, which has other films
    python benchmarks/library_rendered.py --encoder FOLDER      # an image–text model instead of the weight-free one

- R@k: share of sentences whose best correct film is among the first k. SumR also counts k = 100.
- IoU: overlap of the true moment with the best moment found in the sentence's own film; "≥ 0.5" is the share of
  sentences that reach it.
- Confidence: how many sentences have a result that stands out, how many of those have a correct film first, and how
  many would still have one if the films they describe were removed from the library.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from prvr.library import KnownQuery, Library, MomentOptions, judge, rendered_queries
from prvr.media import open_encoder
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world

KINDS: dict[str, dict[str, Any]] = {
    "frames": {"local": "frames"},
    "windows 2 s / 1 s": {"local": "windows", "window": 2.0, "stride": 1.0},
    "windows 3 s / 1 s": {"local": "windows", "window": 3.0, "stride": 1.0},
    "windows 4 s / 2 s": {"local": "windows", "window": 4.0, "stride": 2.0},
    "windows 8 s / 4 s": {"local": "windows", "window": 8.0, "stride": 4.0},
    "moments": {"local": "moments"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=200, help="films in the library")
    parser.add_argument("--queries", type=int, default=300, help="sentences, at most")
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 2.0], help="frames per second")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="local tokens")
    parser.add_argument("--model", type=Path, nargs="*", default=[], help="trained runs; each decides its own rate")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.7], help="of MomentOptions, each measured")
    parser.add_argument("--seed", type=int, default=1, help="of the world; the demo's is 0")
    parser.add_argument("--encoder", default="plain", help="plain, a folder, or a prepared hub name")
    args = parser.parse_args()
    encoder = open_encoder(args.encoder)
    libraries = [(f"{rate:g} / s, {kind}", {"rate": rate, **KINDS[kind]}) for rate in args.rates for kind in args.kinds]
    libraries += [(f"trained: {run}", {"model": run}) for run in args.model]
    config = replace(RENDERED_SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config, workers=2)
        known = rendered_queries(world)[: args.queries]
        table = Table(title=f"{args.films} films, {len(known)} sentences, {encoder.name}")
        for column in ("library", "TRACE", "R@1", "R@5", "R@10", "SumR"):
            table.add_column(column)
        for keep in args.keep:
            table.add_column(f"IoU, ≥ 0.5\nkeep {keep:g}")
        table.add_column("confident, right of them,\nwithout the films")
        for number, (name, settings) in enumerate(libraries):
            lib = Library.create(Path(folder) / str(number), encoder=encoder, **settings)
            lib.add(film_files(world))
            for row in table_rows(lib, known, args.keep):
                table.add_row(name, *row)
        Console(width=160).print(table)


def film_files(world: RenderedWorld) -> list[Path]:
    return [world.videos[script.video] for script in world.scripts["test"]]


def table_rows(lib: Library, known: Sequence[KnownQuery], keeps: Sequence[float]) -> Iterator[list[str]]:
    """Rows of the table: TRACE off, then on."""
    for trace in (False, True):
        judged = {keep: judge(lib, known, trace=trace, moments=MomentOptions(keep=keep)) for keep in keeps}
        first = judged[keeps[0]]
        recalls = [f"{value:.1f}" for value in (*(first.recall[k] for k in (1, 5, 10)), first.recall.sum_r)]
        ious = [f"{f.overlaps.mean():.3f}, {100 * np.mean(f.overlaps >= 0.5):.0f} %" for f in judged.values()]
        right = first.confident_and_right / first.confident if first.confident else 0.0
        sure = f"{100 * first.confident:.0f} %, {100 * right:.0f} %, {100 * first.confident_without:.0f} %"
        yield ["on" if trace else "off", *recalls, *ious, sure]


if __name__ == "__main__":
    main()
