"""``python benchmarks/frozen_proxy.py SOURCE``: the frozen backbone on a symbolic-video proxy, without training.

    python benchmarks/frozen_proxy.py charades --annotations DIR --encoder FOLDER --noise mid

The proxy's random map is left out, so that frames and sentences share one space. A frame is the annotators' description
of its time, embedded by a sentence model, with labels dropped, replaced and shifted, and the proxy's noise. A query is
another person's sentence. It shows how local tokens and TRACE behave on real sentences and real moments. It says
nothing about vision and is not a result on the dataset. Nothing is written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from frozen_common import LabelledQueries, comparison
from rich.console import Console
from torch import Tensor

from prvr.media import TextEncoder, open_text_encoder, unit_rows
from prvr.worlds import (
    NOISE_LEVELS,
    ProxyConfig,
    add_noise,
    compose_frames,
    damage_labels,
    nearest_texts,
    read_activitynet,
    read_charades,
)

READERS = {"charades": read_charades, "activitynet": read_activitynet}


def arguments(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=READERS)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--encoder", required=True, help="folder of a sentence model, or a prepared name")
    parser.add_argument("--noise", choices=NOISE_LEVELS, default="mid")
    parser.add_argument("--shape", choices=("correlated", "independent"), default="correlated")
    parser.add_argument("--videos", type=int, default=300, help="test videos in the gallery")
    return parser.parse_args()


def proxy(args: argparse.Namespace, encoder: TextEncoder) -> tuple[list[Tensor], LabelledQueries]:
    """Frames of videos (n, D) each, and queries in the same space."""
    source, config = READERS[args.source](args.annotations), ProxyConfig(noise=args.noise, shape=args.shape)
    scripts = source.scripts["test"][: args.videos]
    row = {script.video: number for number, script in enumerate(scripts)}
    queries = [query for query in source.annotations["test"] if query.moment.video in row]

    texts = sorted({t for s in scripts for t in (*s.setting, *(label.text for label in s.events))})
    vectors = dict(zip(texts, encoder.encode_texts(texts), strict=True))
    near = nearest_texts(
        {label.text: vectors[label.text] for script in scripts for label in script.events}, config.near
    )
    videos = []
    for number, script in enumerate(scripts):
        rng = np.random.default_rng((config.seed, number))
        damaged = damage_labels(script, near.__getitem__, config, rng)
        states, shown = compose_frames(damaged, vectors, config, encoder.width)
        frames = add_noise(
            states[shown] * np.sqrt(encoder.width), config, rng
        )  # each dimension has deviation 1, as there
        videos.append(torch.from_numpy(unit_rows(frames)))
    return videos, LabelledQueries(
        vectors=torch.from_numpy(encoder.encode_texts([query.sentence for query in queries])),
        positives=[tuple(row[video] for video in query.positives if video in row) for query in queries],
        own=torch.tensor([row[query.moment.video] for query in queries]),
        moments=[(query.moment.start, query.moment.end) for query in queries],
    )


def main() -> None:
    args = arguments(__doc__)
    videos, labelled = proxy(args, open_text_encoder(args.encoder))
    title = f"{args.source}, unmapped, noise {args.noise} {args.shape}"
    Console().print(comparison(videos, labelled, ProxyConfig().rate, title))


if __name__ == "__main__":
    main()
