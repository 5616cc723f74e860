"""``python benchmarks/frozen_rendered.py``: the frozen backbone on the rendered world, without training.

    python benchmarks/frozen_rendered.py                       # renders 200 films, then searches them
    python benchmarks/frozen_rendered.py --encoder FOLDER      # an image–text model instead of the weight-free one

R@k is the share of sentences whose best correct film is among the first k. IoU is the overlap of the true moment with
the token of highest evidence in the sentence's own film. `library_rendered.py` measures the same with a library, which
also cuts moments out.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from frozen_common import LabelledQueries, comparison
from rich.console import Console

from prvr.media import open_encoder, video_features
from prvr.worlds import RENDERED_SIZES, render_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=200, help="films in the gallery")
    parser.add_argument("--rate", type=float, default=2.0, help="samples per second")
    parser.add_argument("--seed", type=int, default=0, help="of the world")
    parser.add_argument("--encoder", default="plain", help="plain, a folder, or a prepared hub name")
    args = parser.parse_args()
    encoder = open_encoder(args.encoder)
    config = replace(RENDERED_SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config)
        names = [script.video for script in world.scripts["test"]]
        films = [torch.from_numpy(video_features(world.videos[name], encoder, args.rate).vectors) for name in names]
    queries, row = world.queries["test"], {name: number for number, name in enumerate(names)}
    labelled = LabelledQueries(
        vectors=torch.from_numpy(encoder.encode_texts([query.sentence for query in queries])),
        positives=[tuple(row[video] for video in world.positives("test", query)) for query in queries],
        own=torch.tensor([row[query.video] for query in queries]),
        moments=[(query.event.start, query.event.end) for query in queries],
    )
    Console().print(comparison(films, labelled, args.rate, encoder.name))


if __name__ == "__main__":
    main()
