"""How long a search takes in a large library, and how large the library is: synthetic vectors, real files.

    python benchmarks/library_search.py --hours 1000 --folder /somewhere/large     # 3.7 GB at 512-d
    python benchmarks/library_search.py --hours 20                                 # a quick look

Vectors are walks through a space of topics, so that neighbours are alike as they are in videos. Nothing is decoded:
what is measured is `Library.search` as a user calls it, every stored token looked at, with the files in the page cache
(warm) after one search has read them. The encoder stands still: it hands out vectors near a random frame.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.console import Console

from prvr.library import Library, SearchOptions
from prvr.library.catalogue import NewVideo
from prvr.library.committing import commit
from prvr.library.pending import Indexed, Pending
from prvr.library.tracks import Piece
from prvr.media.encoders.base import Array, Encoder, unit
from prvr.media.frames import Fit, Image


class Standstill(Encoder):
    """Vectors of the benchmark's own making: a sentence is the number of a vector."""

    fit = Fit(8, 8)

    def __init__(self, width: int):
        self.name, self.width, self.word_width = "standstill", width, width

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return np.zeros((len(images), self.width), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        seeds = [zlib.crc32(text.encode()) if not text.isdigit() else int(text) for text in texts]
        near = scenes_about(self.width)[[seed % 1000 for seed in seeds]]
        return unit(near + 0.7 * np.stack([topics(1, self.width, seed)[0] for seed in seeds]))

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


def topics(count: int, width: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, width), np.float32)


@lru_cache
def scenes_about(width: int) -> Array:
    """A thousand topics, the same in every process."""
    return topics(1000, width, 0)


def walk(frames: int, width: int, rng: np.random.Generator) -> Array:
    """A video: scenes of some seconds around one of a thousand topics each, changing a little with each frame."""
    lengths = rng.integers(4, 40, frames // 4 + 1)
    scenes = np.repeat(rng.integers(0, 1000, len(lengths)), lengths)[:frames]
    noise = rng.standard_normal((frames, width), np.float32)
    return unit(scenes_about(width)[scenes] + 0.7 * noise)


DISTINCT = 100  # videos that differ, where nothing depends on it: exact search takes no notice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=20.0, help="of video at one frame per second")
    parser.add_argument("--minutes", type=float, default=60.0, help="of each video")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--storage", default="fp16", choices=("fp16", "int8", "fp32"))
    parser.add_argument("--local", default="windows", choices=("windows", "frames", "moments"))
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--index", action="store_true", help="index candidates too, and compare (needs faiss)")
    parser.add_argument("--folder", type=Path, help="where to make it (kept, and used again if it is there)")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp()) / "library"
    encoder = Standstill(args.width)
    console = Console(highlight=False)
    if not (folder / "library.json").exists():
        lib = Library.create(folder, encoder=encoder, storage=args.storage, local=args.local)
        began = time.perf_counter()
        videos = round(args.hours * 60 / args.minutes)
        fill(lib, videos, round(args.minutes * 60), distinct=videos if args.index else DISTINCT)
        console.print(f"filled in {time.perf_counter() - began:.0f} s")
    lib = Library.open(folder, encoder=encoder)
    status = lib.status()
    console.print(
        f"{status.videos} videos, {status.frames} frames, {status.tokens} tokens, {args.width}-d "
        f"{lib.settings.storage} {lib.settings.local}: {status.bytes / 1e9:.2f} GB, "
        f"{status.bytes_per_frame:.0f} bytes per frame"
    )
    for name, options in {
        "exact": SearchOptions(),
        "exact, TRACE off": SearchOptions(trace=False),
        "exact, by moment": SearchOptions(group_by="moment"),
    }.items():
        times = timed(lib, options, args.searches)
        console.print(
            f"{name}: first {1000 * times[0]:.0f} ms, then median {1000 * np.median(times[1:]):.0f} ms, "
            f"90 % within {1000 * np.quantile(times[1:], 0.9):.0f} ms"
        )
    began = time.perf_counter()
    lib.search_many([str(seed) for seed in range(32)], SearchOptions())
    console.print(f"32 searches in one pass: {1000 * (time.perf_counter() - began):.0f} ms")
    if args.index:
        approximate(lib, args.searches, console)
    if args.folder is None:
        shutil.rmtree(folder.parent)


def approximate(lib: Library, searches: int, console: Console) -> None:
    """Index, search with candidates, and count how many of the exact best ten are found."""
    began = time.perf_counter()
    made = lib.index()
    if not made:
        console.print("too small to index")
        return
    about = made["frames"].about
    megabytes = (lib.folder / "candidates" / about.file).stat().st_size / 1e6
    console.print(
        f"indexed {about.stretches:,} stretches in {time.perf_counter() - began:.0f} s: {megabytes:.0f} MB, "
        f"{about.probes} lists looked at; {lib.recall()['frames']}"
    )
    times = timed(lib, SearchOptions(approximate=True), searches)
    found = []
    for seed in range(searches):
        exact, quick = ({hit.video.id for hit in lib.search(str(seed), approximate=way)} for way in (False, True))
        found.append(len(exact & quick) / len(exact))
    middle, most = (1000 * float(np.quantile(times[1:], share)) for share in (0.5, 0.9))
    console.print(
        f"approximate: median {middle:.0f} ms, 90 % within {most:.0f} ms; "
        f"{100 * np.mean(found):.1f} % of the exact best ten of {searches} queries"
    )


def fill(lib: Library, videos: int, frames: int, distinct: int = DISTINCT) -> None:
    """Videos of so many frames each; they may repeat, which no exact search can tell by its time."""
    track = lib.tracks["frames"]
    made: list[Pending] = []
    for number in range(videos):
        if number < distinct:
            rng = np.random.default_rng((7, number))
            start = np.arange(frames, dtype=np.float64)
            piece = Piece(walk(frames, track.encoder.width, rng), np.stack([start, start + 1], 1))
            made.append(Pending(lib.folder, held=0))
            for section in track.sections([piece]):
                made[-1].add(section)
        pending = made[number % distinct]
        video = NewVideo(
            Path(f"/made up/{number:06d}.mp4"), frames, 0, str(number), duration=float(frames), frames=frames
        )
        commit(lib.catalogue, lib.folder, [Indexed(video, {"frames": pending})])


def timed(lib: Library, options: SearchOptions, searches: int) -> list[float]:
    times = []
    for seed in range(searches):
        began = time.perf_counter()
        lib.search_many([str(seed)], options)
        times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()
