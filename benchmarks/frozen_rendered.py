"""The frozen backbone on the rendered world without training: frames, windows and moments, TRACE off and on.

    python benchmarks/frozen_rendered.py                       # draws 200 films, then searches them
    python benchmarks/frozen_rendered.py --encoder FOLDER      # an image–text model instead of the weight-free one

R@k: share of sentences whose best correct film is among the first k. IoU: overlap of the found moment with the true one
in the sentence's own film (the token with the highest evidence). λ is not tuned: the paper's 0.03, and 0.3.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from prvr.backbones import build
from prvr.evaluation import ranks, recalls
from prvr.media.encoders import open_encoder
from prvr.media.features import video_features
from prvr.media.render import SIZES, RenderConfig, render_world
from prvr.trace import TraceConfig, trace_evidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=200)
    parser.add_argument("--rate", type=float, default=2.0, help="samples per second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default="plain")
    args = parser.parse_args()
    encoder = open_encoder(args.encoder)
    config: RenderConfig = replace(SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config)
        names = [script.video for script in world.scripts["test"]]
        films = [torch.from_numpy(video_features(world.videos[name], encoder, args.rate).vectors) for name in names]
    queries = world.queries["test"]
    sentences = torch.from_numpy(encoder.encode_texts([query.sentence for query in queries]))
    row = {name: number for number, name in enumerate(names)}
    correct = [tuple(row[video] for video in world.positives("test", query)) for query in queries]

    table = Table(
        title=f"{len(names)} films, {len(queries)} sentences, {encoder.name}, {args.rate:g} samples per second"
    )
    for column in ("local tokens", "score", "R@1", "R@5", "R@10", "mean IoU"):
        table.add_column(column, justify="left" if column in ("local tokens", "score") else "right")
    longest = max(map(len, films))
    frames = torch.stack([torch.nn.functional.pad(film, (0, 0, 0, longest - len(film))) for film in films])
    mask = torch.tensor([[i < len(film) for i in range(longest)] for film in films])
    for local in ("frames", "windows", "moments"):
        backbone = build("frozen", visual_width=encoder.width, query_width=encoder.width, local=local)
        tokens = backbone.encode_videos(frames, mask, frames[:, :0])
        base = backbone.base_score(sentences, tokens)
        assert tokens.registers is not None
        evidence = trace_evidence(sentences, tokens.registers, tokens.frames, tokens.frame_mask, config=TraceConfig())
        own = torch.tensor([row[query.video] for query in queries])
        each = torch.arange(len(queries))
        spans = tokens.seconds(args.rate)  # type: ignore[attr-defined]
        direct = torch.einsum("qd,qmd->qm", sentences, tokens.frames[own]).masked_fill(~tokens.frame_mask[own], -9)
        found = {
            "base": (base, direct.argmax(1)),
            "base + 0.03 TRACE": (base + 0.03 * evidence.score, evidence.peak[each, own]),
            "base + 0.3 TRACE": (base + 0.3 * evidence.score, evidence.peak[each, own]),
        }
        for name, (scores, peak) in found.items():
            recall = recalls(ranks(scores, correct))
            overlaps = [
                _iou(spans[o, p], (q.event.start, q.event.end)) for o, p, q in zip(own, peak, queries, strict=True)
            ]
            values = [f"{recall[k]:.1f}" for k in (1, 5, 10)]
            table.add_row(local, name, *values, f"{sum(overlaps) / len(overlaps):.3f}")
    Console().print(table)


def _iou(found: list[float], start: float, end: float) -> float:
    shared = max(0.0, min(end, found[1]) - max(start, found[0]))
    return shared / (max(end, found[1]) - min(start, found[0]))


if __name__ == "__main__":
    main()
