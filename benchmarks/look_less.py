"""``python benchmarks/look_less.py``: what is lost when frames that repeat the last encoded one are not encoded again.

    python benchmarks/look_less.py                        # the usual threshold, on seeds that it was not chosen on
    python benchmarks/look_less.py --choose               # several thresholds, on the seeds that it was chosen on
    python benchmarks/look_less.py --model demo/run       # and a run of `prvr demo`

It makes films that mostly stand still (slides, a talking head, a static camera) and busy ones (a pan, camera shake,
fades, film grain, low bitrate), and renders films as `prvr demo` does. Each kind becomes a library twice: with every
frame encoded, and without repeats.

- skipped: share of the frames that were not encoded.
- missed: events of at least 1 s whose sentence finds them (the best moment overlaps them) only if every frame is
  encoded, of those that are found then. In brackets: events, and added lines of slides, of which no frame was encoded
  although one frame per second sees them.
- R@1, IoU: of the sentences, as in `library_rendered.py`; first with every frame, then without repeats.
- cosine: of the vectors with and without repeats, of skipped frames: smallest and mean. `plain`, and SigLIP's
  architecture with random weights.
- seconds: of `library add`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from look_less_films import KINDS, MadeFilm, ShownEvent, make_films
from rich.console import Console
from rich.table import Table

from prvr.library import AddReport, Judgement, KnownQuery, Library, judge, rendered_queries
from prvr.media import (
    USUAL_REPEATS,
    Array,
    Encoder,
    Fit,
    Frame,
    Image,
    RepeatFilter,
    open_encoder,
    open_video,
    picture_engine,
    require_transformers,
    spread,
    unit_rows,
)
from prvr.processes import map_in_processes
from prvr.worlds import RENDERED_SIZES, render_world

CHOOSING, REPORTING = (0, 1, 10, 11), (20, 21)  # seeds of the films
RENDERED = "rendered films"
THRESHOLDS = (2.0, 4.0, 6.0, 8.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=3, help="of each kind and seed")
    parser.add_argument("--rendered", type=int, default=40, help="rendered films")
    parser.add_argument("--rate", type=float, default=1.0, help="frames per second")
    parser.add_argument("--kinds", nargs="*", default=[*KINDS, RENDERED], help="which films")
    parser.add_argument("--choose", action="store_true", help="try several thresholds, on the seeds for choosing")
    parser.add_argument("--thresholds", type=float, nargs="+", help="levels of 255; the usual one is the default")
    parser.add_argument("--model", type=Path, help="a run of `prvr demo`, for the rendered films")
    args = parser.parse_args()
    seeds = CHOOSING if args.choose else REPORTING
    thresholds = args.thresholds or (THRESHOLDS if args.choose else (USUAL_REPEATS,))
    networks = {"plain": open_encoder("plain"), "ViT": RandomViT()}
    table = Table(title=f"seeds {seeds}, {args.rate:g} frames per second")
    for name in ("films", "threshold", "skipped", "missed (unseen)", "R@1", "IoU", "seconds"):
        table.add_column(name)
    for name in networks:
        table.add_column(f"cosine, {name}")
    console = Console(width=170)
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.kinds:
            place = Path(folder) / kind.replace(" ", "_").replace(",", "")
            material = (
                rendered(place, args.rendered, seeds[0]) if kind == RENDERED else made(place, kind, args.films, seeds)
            )
            bases: dict[str, dict[str, Any]] = {kind: {"encoder": "plain", "rate": args.rate}}
            if kind == RENDERED and args.model is not None:
                bases[f"{kind}, trained"] = {"model": args.model}
            looks = {name: Looks(material.films, each, args.rate) for name, each in networks.items()}
            for name, settings in bases.items():
                every = answers(place, material, settings, 0.0)
                for threshold in thresholds:
                    row = Comparison(every, answers(place, material, settings, threshold))
                    cosines = [each.without(threshold) for each in looks.values()]
                    unseen = max(each for _, each in cosines)
                    cells = [name, f"{threshold:g}", *row.cells(unseen), *(cosine for cosine, _ in cosines)]
                    table.add_row(*cells)
                    console.print(" | ".join(cells), style="dim")  # it takes minutes
            costs = [f"{name}: decoded in {each.cost(each.decoding)}, compared in {each.cost(each.measuring)}"
                     for name, each in looks.items()]  # fmt: skip
            console.print(f"{kind}: done; a frame for {'; for '.join(costs)}", style="dim")
    console.print(table)


# -- films ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """Films of one kind, and sentences about them."""

    films: list[MadeFilm]
    known: list[KnownQuery]


def made(place: Path, kind: str, count: int, seeds: Sequence[int]) -> Material:
    """Films of ``look_less_films``; several may show what a sentence describes."""
    tasks = [(place / str(seed), kind, count, seed) for seed in seeds]
    films = [film for some in map_in_processes(_make, tasks, 2) for film in some]
    correct: dict[str, set[Path]] = {}
    for film in films:
        for event in film.events:
            correct.setdefault(event.sentence, set()).add(film.path)
    known = [
        KnownQuery(event.sentence, frozenset(correct[event.sentence]), film.path, event.start, event.end)
        for film in films
        for event in film.events
        if event.sentence
    ]
    return Material(films, known)


def _make(task: tuple[Path, str, int, int]) -> list[MadeFilm]:
    return make_films(*task)


def rendered(place: Path, count: int, seed: int) -> Material:
    """Films of `prvr demo`, which flicker a little."""
    config = replace(RENDERED_SIZES["demo"], seed=seed, train=1, val=1, test=count)
    world = render_world(place / "films", config, workers=2)
    films = [
        MadeFilm(
            world.videos[script.video].resolve(),
            tuple(ShownEvent(each.start, each.end) for each in script.events if each.end - each.start >= 1),
        )
        for script in world.scripts["test"]
    ]
    return Material(films, rendered_queries(world))


# -- answers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """What a library finds, and how it was made."""

    judged: Judgement
    report: AddReport


@dataclass(frozen=True)
class Comparison:
    """Answers with every frame encoded, and without repeats."""

    every: Answers
    without: Answers

    def cells(self, unseen: int) -> list[str]:
        before, after = self.every.judged, self.without.judged
        found = before.overlaps > 0
        missed = found & (after.overlaps <= 0)
        return [
            f"{100 * self.without.report.repeated:.0f} %",
            f"{missed.sum()} of {found.sum()} ({unseen})",
            f"{before.recall[1]:.1f} → {after.recall[1]:.1f}",
            f"{before.overlaps.mean():.3f} → {after.overlaps.mean():.3f}",
            f"{self.every.report.elapsed:.1f} → {self.without.report.elapsed:.1f}",
        ]


def answers(place: Path, material: Material, settings: dict[str, Any], threshold: float) -> Answers:
    """Add all films to a new library and ask for all events."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        library = Library.create(Path(folder) / "library", repeats=threshold, **settings)
        report = library.add([film.path for film in material.films], processes=1)
        return Answers(judge(library, material.known), report)


# -- vectors ----------------------------------------------------------------------------------------------------------


class RandomViT(Encoder):
    """SigLIP's architecture with random weights, smaller than usual. It reads no sentences."""

    name, width, word_width, sees_motion = "random-vit", 192, 0, False
    fit = Fit(224, 224, "stretch", "bicubic")

    def __init__(self) -> None:
        transformers = require_transformers()
        torch.manual_seed(0)
        vision = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3, "num_hidden_layers": 6}
        text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
        config = transformers.SiglipConfig(
            vision_config={**vision, "image_size": 224, "patch_size": 16},
            text_config={**text, "vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        )
        model = transformers.SiglipModel(config).eval().requires_grad_(False)
        self.engine = picture_engine(model, 224, torch.device("cpu"), engine="torch")

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        parts = [np.stack(images[i : i + 16]) for i in range(0, len(images), 16)]
        return unit_rows(np.concatenate([self.engine.start(part)() for part in parts]))

    def encode_texts(self, texts: Sequence[str]) -> Array:
        raise NotImplementedError

    def encode_words(self, text: str) -> Array:
        raise NotImplementedError


class Looks:
    """The frames of some films for one encoder, with the vectors that they have if all are encoded."""

    def __init__(self, films: Sequence[MadeFilm], encoder: Encoder, rate: float):
        self.films, self.encoder, self.frames = films, encoder, list[list[Frame]]()
        began = time.perf_counter()
        for film in films:
            with open_video(film.path) as video:
                self.frames.append(list(video.frames(rate, encoder.fit)))
        self.decoding = time.perf_counter() - began  # seconds
        self.measuring = 0.0  # seconds, of the last threshold
        self.every = [encoder.encode_frames([frame.image for frame in frames]) for frames in self.frames]

    def cost(self, seconds: float) -> str:
        return f"{1000 * seconds / sum(map(len, self.frames)):.2f} ms"

    def without(self, threshold: float) -> tuple[str, int]:
        """Cosines of skipped frames to the vectors they would have had; events that no encoded frame shows."""
        cosines, unseen, self.measuring = [np.zeros(0)], 0, 0.0
        for film, frames, every in zip(self.films, self.frames, self.every, strict=True):
            repeats = RepeatFilter(threshold, self.encoder.sees_motion)
            began = time.perf_counter()
            kept = np.array([repeats.keeps(frame.image) for frame in frames])
            self.measuring += time.perf_counter() - began
            times = np.array([frame.time for frame in frames])
            for event in film.events:
                inside = (times >= event.start) & (times < event.end)
                unseen += bool(inside.any() and not kept[inside].any())
            images = [frame.image for frame, keep in zip(frames, kept, strict=True) if keep]
            some = self.encoder.encode_frames(images) if self.encoder.sees_motion else every[kept]
            cosines.append((every * spread(some, kept.tolist())).sum(1)[~kept])
        found = np.concatenate(cosines)
        return f"{found.min():.3f}, {found.mean():.4f}" if len(found) else "", unseen


if __name__ == "__main__":
    main()
