"""The frozen backbone on the rendered world without training: frames, windows and moments, TRACE off and on.

    python benchmarks/frozen_rendered.py                       # draws 200 films, then searches them
    python benchmarks/frozen_rendered.py --encoder FOLDER      # an image–text model instead of the weight-free one

R@k: share of sentences whose best correct film is among the first k. IoU: overlap of the true moment with the token of
highest evidence in the sentence's own film. λ is not tuned: two values are shown.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from prvr.backbones import build
from prvr.backbones.frozen import FrozenTokens
from prvr.evaluation import ranks, recalls
from prvr.library.moments import overlap
from prvr.media.encoders import Encoder, open_encoder
from prvr.media.features import video_features
from prvr.media.render import SIZES, Query, RenderedWorld, render_world
from prvr.trace import trace_evidence

FUSION_WEIGHTS = (0.03, 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=200, help="films in the gallery")
    parser.add_argument("--rate", type=float, default=2.0, help="samples per second")
    parser.add_argument("--seed", type=int, default=0, help="of the world")
    parser.add_argument("--encoder", default="plain", help="plain, a folder, or a prepared hub name")
    args = parser.parse_args()
    encoder = open_encoder(args.encoder)
    config = replace(SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config)
        films = encoded(world, encoder, args.rate)
    queries = world.queries["test"]
    about = f"{len(films)} films, {len(queries)} sentences, {encoder.name}, {args.rate:g} samples per second"
    table = Table("local tokens", "score", title=about)
    for column in ("R@1", "R@5", "R@10", "mean IoU"):
        table.add_column(column, justify="right")
    sentences = torch.from_numpy(encoder.encode_texts([query.sentence for query in queries]))
    for local in ("frames", "windows", "moments"):
        for name, values in measured(local, world, films, sentences, args.rate):
            table.add_row(local, name, *values)
    Console().print(table)


def encoded(world: RenderedWorld, encoder: Encoder, rate: float) -> list[Tensor]:
    """Frame features of each test film, (n, D)."""
    paths = [world.videos[script.video] for script in world.scripts["test"]]
    return [torch.from_numpy(video_features(path, encoder, rate).vectors) for path in paths]


def measured(
    local: str, world: RenderedWorld, films: list[Tensor], sentences: Tensor, rate: float
) -> Iterator[tuple[str, list[str]]]:
    """Rows of the table for one kind of local tokens."""
    queries = world.queries["test"]
    row = {script.video: number for number, script in enumerate(world.scripts["test"])}
    correct = [tuple(row[video] for video in world.positives("test", query)) for query in queries]
    own, each = torch.tensor([row[query.video] for query in queries]), torch.arange(len(queries))

    width = sentences.shape[1]
    backbone = build("frozen", visual_width=width, query_width=width, local=local)
    frames, mask = pad_sequence(films, True), pad_sequence([torch.ones(len(film)) for film in films], True)
    tokens = backbone.encode_videos(frames, mask, frames[:, :0])
    assert isinstance(tokens, FrozenTokens)
    assert tokens.registers is not None
    evidence = trace_evidence(sentences, tokens.registers, tokens.frames, tokens.frame_mask)
    base = backbone.base_score(sentences, tokens)
    direct = torch.einsum("qd,qmd->qm", sentences, tokens.frames[own]).masked_fill(~tokens.frame_mask[own], -torch.inf)
    found = {"base": (base, direct.argmax(1))}
    for weight in FUSION_WEIGHTS:
        found[f"base + {weight} TRACE"] = (base + weight * evidence.score, evidence.peak[each, own])
    for name, (scores, peak) in found.items():
        recall = recalls(ranks(scores, correct))
        overlap = mean_iou(tokens.seconds(rate)[own, peak].tolist(), queries)
        yield name, [*(f"{recall[k]:.1f}" for k in (1, 5, 10)), f"{overlap:.3f}"]


def mean_iou(found: Sequence[Sequence[float]], queries: Sequence[Query]) -> float:
    """Overlap of found and true moments, by their union."""
    pairs = zip(found, queries, strict=True)
    return sum(overlap(start, end, query.event.start, query.event.end) for (start, end), query in pairs) / len(queries)


if __name__ == "__main__":
    main()
