"""``python benchmarks/encoder_engines.py``: do the engines of image–text encoders give the same vectors and answers?

    python benchmarks/encoder_engines.py                       # every engine that may be fast on this processor
    python benchmarks/encoder_engines.py --engines bf16 int8   # these, also where they are slow
    python benchmarks/encoder_engines.py --profile int8-static # where OpenVINO's time goes, by its own counts

Films are rendered, written as H.264 and decoded again, two frames of each. Every engine encodes the same frames, and is
compared with fp32 by torch:

- cosine: between a frame's vector and its fp32 vector, least and mean; centred: after the mean of the fp32 vectors is
  taken off both, because vectors of a network with random weights share a large part that hides differences.
- top 10: share of fp32's ten best films that are among the ten best, over searches by sentence and by frame.

Three networks, because no published weights are used here:

- trained: a small ViT that learns, in a minute, to see what the encoder `plain` sees in the films of other seeds. It
  answers plain's sentences, so that searches mean something.
- ViT-B/16: SigLIP's architecture at 224 × 224 with random weights, drawn wide enough that vectors differ by picture.
- outliers: the same with a few channels 20 times as large as the others, as large trained networks have them. This is
  what rounding of activations suffers from; an engine that fails here is refused for such a model when it is first
  used.

An engine may be on by default if its cosines are at least what the encoders require of it (0.995, and 0.998 for
int8-static) and it keeps 95 % of the top 10.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from prvr.media import (
    Array,
    EngineName,
    Fit,
    Image,
    open_encoder,
    open_video,
    operation_times,
    picture_engine,
    processor_engines,
    require_transformers,
    required_cosine,
    unit_rows,
)
from prvr.worlds import RENDERED_SIZES, render_world

ENGINES = ("fp32", "bf16", "int8", "int8-static")
LEAST_OVERLAP = 0.95
CPU = torch.device("cpu")
SMALL, LARGE = 64, 224  # sides of the pictures


@dataclass(frozen=True)
class Films:
    """Decoded frames, the film of each, and sentences about the films."""

    frames: list[Image]
    film: np.ndarray[Any, np.dtype[np.int64]]
    sentences: list[str]

    @staticmethod
    def render(folder: Path, seed: int, films: int, side: int, each: int) -> Films:
        """Render films, and decode ``each`` frames of every film at a size."""
        world = render_world(folder / str(seed), replace(RENDERED_SIZES["demo"], seed=seed, train=1, val=1, test=films))
        frames, film = [], []
        for number, script in enumerate(world.scripts["test"]):
            with open_video(world.videos[script.video]) as video:
                seen = [frame.image for frame in video.frames(rate=1.0, fit=Fit(side, side))]
            chosen = np.linspace(0, len(seen) - 1, each + 2).round().astype(int)[1:-1]
            frames += [seen[i] for i in chosen]
            film += [number] * each
        return Films(frames, np.array(film), [query.sentence for query in world.queries["test"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=48, help="films to search; the large networks see 24 of them")
    parser.add_argument("--engines", nargs="*", choices=ENGINES, help="engines to compare with fp32 by torch")
    parser.add_argument("--networks", nargs="*", choices=["trained", "ViT-B/16", "outliers"])
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--profile", choices=ENGINES, help="compare nothing; time the operations of ViT-B/16 on a core")
    args = parser.parse_args()
    if args.profile:
        Console(width=140).print(profile(args.profile))
        return
    engines = args.engines or processor_engines()[1:]
    table = Table(title=f"compared with fp32, {args.films} films", box=None)
    for name in ("network", "engine", "cosine", "centred", "top 10, sentences", "top 10, frames", "by default"):
        table.add_column(name)
    with tempfile.TemporaryDirectory() as folder:
        for network, model, films in networks(Path(folder), args.films, args.steps, args.networks):
            full, side = vectors(model, films, "torch"), films.frames[0].shape[0]
            for name in engines:
                row = compare(vectors(model, films, name), full, films, name, sentences=side == SMALL)
                table.add_row(network, name, *row)
    Console(width=140).print(table)


def profile(engine: EngineName) -> Table:
    """What OpenVINO's operations take of a picture, on one core."""
    torch.set_num_threads(1)
    times = operation_times(random_network(outliers=False), LARGE, engine)
    whole = times.total()
    table = Table(title=f"ViT-B/16 in {engine} on one core: {1e3 * whole:.1f} ms a picture", box=None)
    for name in ("operation", "kernel", "ms a picture", "share"):
        table.add_column(name, justify="right" if name in ("ms a picture", "share") else "left")
    for (operation, kernel), seconds in times.most_common():
        if seconds > whole / 1000:
            table.add_row(operation, kernel, f"{1e3 * seconds:.2f}", f"{100 * seconds / whole:.1f} %")
    return table


def networks(folder: Path, films: int, steps: int, names: Sequence[str] | None) -> Iterator[tuple[str, Any, Films]]:
    if not names or "trained" in names:
        learnt = Films.render(folder, 1, films, SMALL, 10)
        yield "trained", trained_network(learnt, steps), Films.render(folder, 0, films, SMALL, 2)
    for name in ("ViT-B/16", "outliers"):
        if not names or name in names:
            yield name, random_network(outliers=name == "outliers"), Films.render(folder, 0, films // 2, LARGE, 2)


def trained_network(films: Films, steps: int) -> Any:
    """A small CLIP model whose picture part has learnt the vectors that ``plain`` gives single frames."""
    transformers, teacher = require_transformers(), open_encoder("plain")
    torch.manual_seed(0)
    size = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4}
    vision = {**size, "num_hidden_layers": 4, "image_size": SMALL, "patch_size": 8}
    text = {**size, "num_hidden_layers": 1, "vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    model = transformers.CLIPModel(
        transformers.CLIPConfig(vision_config=vision, text_config=text, projection_dim=teacher.width)
    )
    pixels = torch.from_numpy(np.stack(films.frames)).permute(0, 3, 1, 2).float() / 127.5 - 1
    wanted = torch.from_numpy(teacher.encode_images(films.frames))
    steady = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rates = torch.optim.lr_scheduler.OneCycleLR(steady, 1e-3, total_steps=steps)
    for _ in range(steps):
        chosen = torch.randint(len(pixels), (32,))
        output = model.get_image_features(pixel_values=pixels[chosen])
        found = output if isinstance(output, torch.Tensor) else output.pooler_output
        loss = (1 - torch.cosine_similarity(found, wanted[chosen])).mean()
        steady.zero_grad()
        loss.backward()
        steady.step()
        rates.step()
    print(f"trained: cosine to plain {1 - float(loss):.3f} after {steps} steps", flush=True)
    return model.eval().requires_grad_(False)


def random_network(outliers: bool) -> Any:
    """SigLIP's architecture, ViT-B/16 at 224, with weights drawn wide."""
    transformers = require_transformers()
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}
    text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.SiglipConfig(
        vision_config={**vision, "image_size": LARGE, "patch_size": 16},
        text_config={**text, "vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    )
    model = transformers.SiglipModel(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for name, weights in model.vision_model.named_parameters():
        if weights.dim() > 1:
            weights.copy_(torch.randn(weights.shape, generator=generator) * 1.5 / weights[0].numel() ** 0.5)
        elif outliers and "norm" in name and name.endswith("weight"):
            weights[:4] *= 20
    return model


def vectors(model: Any, films: Films, name: str) -> Array:
    """Unit vectors of the frames, (N, D), through the engine of image–text encoders."""
    engine, pictures = picture_engine(model, films.frames[0].shape[0], CPU, engine=name), np.stack(films.frames)
    parts = [engine.start(pictures[first : first + engine.batch])() for first in range(0, len(pictures), engine.batch)]
    return unit_rows(np.concatenate(parts))


def compare(found: Array, full: Array, films: Films, engine: str, *, sentences: bool) -> tuple[str, ...]:
    """A row of the table, from unit vectors (N, D) of an engine and of fp32."""
    cosines, overlaps = (found * full).sum(1), []
    centred = (unit_rows(found - full.mean(0)) * unit_rows(full - full.mean(0))).sum(1)
    if sentences:
        queries = open_encoder("plain").encode_texts(films.sentences)
        overlaps.append(overlap(best_films(queries, found, films), best_films(queries, full, films)))
    overlaps.append(overlap(best_films(found, found, films), best_films(full, full, films)))
    good = cosines.min() >= required_cosine(engine) and min(overlaps) >= LEAST_OVERLAP
    shares = [f"{100 * share:.1f} %" for share in overlaps]
    return (
        f"{cosines.min():.4f} / {cosines.mean():.4f}",
        f"{centred.min():.4f} / {centred.mean():.4f}",
        *([] if sentences else ["–"]),
        *shares,
        "yes" if good else "no",
    )


def best_films(queries: Array, frames: Array, films: Films) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ten films whose best frame matches each query best, (Q, 10)."""
    scores = queries @ frames.T  # (Q, N)
    by_film = np.stack([scores[:, films.film == number].max(1) for number in np.unique(films.film)], 1)
    return np.argsort(-by_film, 1)[:, :10]


def overlap(found: np.ndarray[Any, np.dtype[np.int64]], full: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """The share of the second's films that are among the first's, on average."""
    return float(np.mean([len({*a} & {*b}) / len(b) for a, b in zip(found.tolist(), full.tolist(), strict=True)]))


if __name__ == "__main__":
    main()
