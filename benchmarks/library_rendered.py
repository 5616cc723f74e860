"""A library of rendered films, searched without training: local tokens, TRACE, moments and confidence.

    python benchmarks/library_rendered.py                      # 200 films, all kinds of local tokens
    python benchmarks/library_rendered.py --encoder FOLDER     # an image–text model instead of the weight-free one

R@k: share of sentences whose best correct film is among the first k. IoU: overlap of the true moment with the best
moment found in the sentence's own film; ≥ 0.5: share of sentences that reach it. Confidence is judged by leaving the
films a sentence is true of out of the library: the share of sentences said to be confident with and without them.
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

from prvr.library import Filters, Library, MomentOptions
from prvr.library.searching import CONFIDENT
from prvr.media.encoders import Encoder, open_encoder
from prvr.media.render import SIZES, Query, RenderedWorld, render_world

KINDS: dict[str, dict[str, Any]] = {
    "frames": {"local": "frames"},
    "windows 2 s / 1 s": {"local": "windows", "window": 2.0, "stride": 1.0},
    "windows 3 s / 1 s": {"local": "windows", "window": 3.0, "stride": 1.0},
    "windows 4 s / 1 s": {"local": "windows", "window": 4.0, "stride": 1.0},
    "windows 4 s / 2 s": {"local": "windows", "window": 4.0, "stride": 2.0},
    "windows 8 s / 4 s": {"local": "windows", "window": 8.0, "stride": 4.0},
    "moments": {"local": "moments"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=200, help="films in the library")
    parser.add_argument("--queries", type=int, default=300, help="sentences, at most")
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 2.0], help="frames per second")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), help="local tokens")
    parser.add_argument(
        "--keep", type=float, nargs="+", default=[0.5, 0.7, 0.9], help="of MomentOptions, each measured"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the world")
    parser.add_argument("--encoder", default="plain", help="plain, a folder, or a prepared hub name")
    args = parser.parse_args()
    encoder = open_encoder(args.encoder)
    config = replace(SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config)
        queries = world.queries["test"][: args.queries]
        table = Table(title=f"{args.films} films, {len(queries)} sentences, {encoder.name}")
        for column in ("rate", "local tokens", "TRACE", "R@1", "R@5", "R@10"):
            table.add_column(column)
        for keep in args.keep:
            table.add_column(f"IoU, ≥ 0.5\nkeep {keep:g}")
        table.add_column("confident\nthere / not")
        for rate in args.rates:
            for kind in args.kinds:
                lib = build(Path(folder) / f"{kind.replace('/', '')}-{rate:g}", world, encoder, rate, KINDS[kind])
                for row in measured(lib, world, queries, args.keep):
                    table.add_row(f"{rate:g}", kind, *row)
        Console(width=140).print(table)


def build(folder: Path, world: RenderedWorld, encoder: Encoder, rate: float, kind: dict[str, Any]) -> Library:
    """Each film with its name as a tag, so that it can be searched alone."""
    lib = Library.create(folder, encoder=encoder, rate=rate, **kind)
    for script in world.scripts["test"]:
        lib.add([world.videos[script.video]], tags=[script.video])
    return lib


def measured(
    lib: Library, world: RenderedWorld, queries: Sequence[Query], keeps: Sequence[float]
) -> Iterator[list[str]]:
    """Rows of the table: TRACE off, then on."""
    names = {script.video for script in world.scripts["test"]}
    for trace in (False, True):
        places, sure, unsure = [], [], []
        overlaps: dict[float, list[float]] = {keep: [] for keep in keeps}
        for query in queries:
            correct = set(world.positives("test", query))
            found = lib.search(query.sentence, limit=10, trace=trace)
            if not found:  # the encoder knows none of its words
                places.append(np.inf)
                continue
            ranks = [place for place, hit in enumerate(found, 1) if hit.video.path.stem in correct]
            places.append(min(ranks, default=np.inf))
            sure.append(found.confident)
            for keep in keeps:
                options = MomentOptions(keep=keep)
                own = lib.search(
                    query.sentence, limit=1, trace=trace, filters=Filters(tags=(query.video,)), moments=options
                )
                overlaps[keep].append(iou(own[0].start, own[0].end, query))
            unsure.append(confident_without(lib, query, correct, names, trace))
        recalls = [f"{100 * np.mean(np.array(places) <= k):.1f}" for k in (1, 5, 10)]
        ious = [f"{np.mean(o):.3f}, {100 * np.mean(np.array(o) >= 0.5):.0f} %" for o in overlaps.values()]
        yield ["on" if trace else "off", *recalls, *ious, f"{100 * np.mean(sure):.0f} / {100 * np.mean(unsure):.0f} %"]


def confident_without(lib: Library, query: Query, correct: set[str], names: set[str], trace: bool) -> bool:
    """Whether the library would claim a match if it held no film that the sentence is true of."""
    from prvr.library.ranking import RankedTrack, Table

    snapshot = lib.snapshot()
    allowed = {number for number, video in snapshot.videos.items() if video.path.stem in names - correct}
    view = snapshot.tracks["frames"]
    vector = lib.encode("frames", [query.sentence])
    weight = view.fusion_weight if trace else 0.0
    ranked = RankedTrack(Table(view, view.score(vector), [0], weight, allowed), vector[0], 0)
    return (ranked.confidence(float(ranked.scores.max())) or 0.0) >= CONFIDENT


def iou(start: float, end: float, query: Query) -> float:
    true = query.event
    shared = max(0.0, min(end, true.end) - max(start, true.start))
    return shared / (max(end, true.end) - min(start, true.start))


if __name__ == "__main__":
    main()
