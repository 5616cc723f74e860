"""``python benchmarks/witness_search.py``: what a witness adds to the time of a search in a library.

    python benchmarks/witness_search.py                                  # 200, 2,000 and 10,000 videos
    python benchmarks/witness_search.py --videos 2000 --profile          # and where the time goes

A search with a witness must take at most 1.5 times as long as the same search without one. Two libraries hold the same
videos. Their models have the same weights and the size of ``prvr train DATA``; one of them has a witness. Nothing is
trained: weights are random, which changes the order of the answers and not the time. Vectors are those of
``library_search.py``, of videos of two minutes. The sentences have eight words, and their encoder costs nothing, which
makes the share of the witness look larger than it is with a real one.

Both libraries are searched in turns by the same process. *Warm*: sentence after sentence. *JSON*: the same, and the
answer as `prvr search --json` prints it, which adds what each word sees in the ten videos of a page. (The page of a
server asks for that only of the hit that is opened.) *First*: a library is opened,
its model loaded, and one sentence searched; with its files in the page cache, and with none of them there.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from library_search import SyntheticEncoder, fill, first_search, scenes_about
from rich.console import Console

from prvr.library import Library, SearchRequest
from prvr.media import Array, unit_rows
from prvr.trace import Witness
from prvr.training import FittedWitness, Run, TraceModel, load_preset, save_run_witness

WITHOUT, WITH = "without", "with"
BATCH = 32  # searches in one pass
_DISTINCT = 1000  # videos that differ
_WORDS = 8  # of a sentence


class WordEncoder(SyntheticEncoder):
    """Returns synthetic vectors of words and frames."""

    def encode_words(self, text: str) -> Array:
        return unit_rows(np.stack([self.encode_texts([word])[0] for word in text.split()]))


def sentence(number: int) -> str:
    """A sentence of words that no file is named after."""
    return " ".join(f"word{word}" for word in np.random.default_rng(number).integers(0, 1000, _WORDS))


def make_runs(folder: Path, encoder: WordEncoder, inputs: str) -> dict[str, Run]:
    """Two runs with the same random weights, with a witness of these inputs and without."""
    config = load_preset("own", "witness")
    widths = {"visual_width": encoder.width, "query_width": encoder.word_width}
    config = replace(config, model=replace(config.model, **widths))  # type: ignore[arg-type]
    recipes = {"frames": encoder.recipe(1.0, "pyav"), "queries": encoder.text_recipe(words=True)}
    runs = {}
    for name in (WITHOUT, WITH):
        torch.manual_seed(0)
        run = runs[name] = Run(folder / f"run-{name}")
        run.create(config, folder, features={track: asdict(recipe) for track, recipe in recipes.items()})
        run.save_weights(config.selection, TraceModel.from_config(config).state_dict(), epochs=[0], fusion_weight=0.05)
    shared = config.model.width if inputs == "both" else 0
    witness = Witness(shared + encoder.word_width, shared + encoder.width, config.witness_stage.witness, shared).eval()
    bank = torch.nn.functional.normalize(torch.randn(64, config.model.width), dim=-1)
    save_run_witness(runs[WITH], FittedWitness(witness, 4.0, 0.5, bank, inputs))
    return runs


def make_libraries(
    folder: Path, videos: int, frames: int, encoder: WordEncoder, inputs: str = "raw"
) -> dict[str, Library]:
    """The same videos in two libraries."""
    libraries = {}
    for name, run in make_runs(folder, encoder, inputs).items():
        libraries[name] = Library.create(folder / f"library-{name}", model=run.path, encoder=encoder)
        fill(libraries[name], videos, frames, distinct=min(videos, _DISTINCT))
    return libraries


def in_turns(
    libraries: Mapping[str, Library], search: Callable[[Library, int], object], times: int, warm_up: int = 3
) -> dict[str, Array]:
    """Seconds of each search by clock and of all cores, (times, 2), of every library in turns.

    ``search`` gets the number of a sentence.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for number in range(-warm_up, times):
        for name in sorted(libraries, reverse=bool(number % 2)):
            gc.collect()
            clock, cores = time.perf_counter(), time.process_time()
            search(libraries[name], abs(number))
            taken[name].append((time.perf_counter() - clock, time.process_time() - cores))
    return {name: np.array(each[warm_up:], np.float32) for name, each in taken.items()}


def line(name: str, taken: Mapping[str, Array]) -> str:
    """Medians and their ratio, by clock and in core time."""
    parts = []
    for column, unit in enumerate(("ms", "ms of cores")):
        before, after = (1000 * float(np.median(taken[each][:, column])) for each in (WITHOUT, WITH))
        parts.append(f"{before:.1f} → {after:.1f} {unit}, × {after / before:.2f}")
    return f"{name}: {'; '.join(parts)}"


def ways(libraries: Mapping[str, Library], times: int) -> dict[str, dict[str, Array]]:
    """The seconds of every way to search."""
    found = {
        "warm": in_turns(libraries, lambda library, number: library.search(sentence(number)), times),
        "warm, JSON": in_turns(libraries, lambda library, number: library.search(sentence(number)).to_dict(), times),
        "warm, by moment": in_turns(
            libraries, lambda library, number: library.search(sentence(number), group_by="moment"), times
        ),
        f"{BATCH} in one pass": in_turns(
            libraries,
            lambda library, number: library.search_many([SearchRequest(sentence(number + n)) for n in range(BATCH)]),
            max(3, times // 10),
        ),
    }
    return found


def first_ways(libraries: Mapping[str, Library], encoder: WordEncoder, times: int) -> dict[str, dict[str, Array]]:
    """The same of the first search of a library that was just opened."""

    def first(library: Library, forget: bool) -> float:
        return first_search(library.address, {"frames": encoder}, forget, sentence(0))

    return {
        "first, files in the page cache": in_turns(libraries, lambda library, _: first(library, False), times, 1),
        "first, files on the disk": in_turns(libraries, lambda library, _: first(library, True), times, 1),
    }


def profile(library: Library, searches: int, rows: int = 40) -> None:
    """Print the functions in which most of the time of warm searches is spent."""
    profiler = cProfile.Profile()
    profiler.enable()
    for number in range(searches):
        library.search(sentence(number))
    profiler.disable()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats("prvr", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, nargs="+", default=[200, 2000, 10_000])
    parser.add_argument("--minutes", type=float, default=2.0, help="of each video, at one frame per second")
    parser.add_argument("--width", type=int, default=768, help="of the encoder")
    parser.add_argument("--inputs", choices=("raw", "both"), default="raw", help="what the witness reads")
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--first", type=int, default=5, help="libraries to open and search once")
    parser.add_argument("--profile", action="store_true", help="where the time goes; in this process")
    args = parser.parse_args()
    console, encoder = Console(highlight=False, width=160), WordEncoder(args.width)
    scenes_about(args.width)
    for videos in args.videos:
        folder = Path(tempfile.mkdtemp())
        libraries = make_libraries(folder, videos, round(60 * args.minutes), encoder, args.inputs)
        sizes = ", ".join(f"{each.status().bytes / 1e6:.0f} MB {name}" for name, each in libraries.items())
        console.print(f"[bold]{videos} videos of {args.minutes:g} minutes[/]: {sizes}")
        for name, taken in ways(libraries, args.searches).items():
            console.print(f"  {line(name, taken)}")
        if args.profile:
            profile(libraries[WITH], args.searches)
        for name, taken in first_ways(libraries, encoder, args.first).items() if args.first else ():
            console.print(f"  {line(name, taken)}")
        del libraries
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
