"""``python benchmarks/library_search.py``: how long a search takes in a large library, and how large the library is.

    python benchmarks/library_search.py --hours 1000 --library /somewhere/large    # 3.7 GB at 512-d
    python benchmarks/library_search.py --hours 20                                 # a quick look
    python benchmarks/library_search.py --videos 50000 --minutes 1 --index         # exact search and candidates
    python benchmarks/library_search.py --videos 50000 --minutes 1 --index --library /somewhere/large.lance   # a lake

Vectors are random walks through topics, so that neighbouring frames are alike as they are in videos. Nothing is
decoded. What is measured is `Library.search` as a user calls it: every stored token is read, from memory after the
first searches if it fits (``PRVR_LIBRARY_CACHE``). The encoder returns vectors near a random topic. ``--cold`` also
times the first search of a library that was just opened, with its files in the page cache and with none of them there.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from prvr.lake import create_library, library_exists, open_library
from prvr.library import (
    PAGE_TOKENS,
    EncoderOverrides,
    FrozenEmbedding,
    IndexedVideo,
    Library,
    LibrarySettings,
    NewVideo,
    Piece,
    SearchRequest,
    Section,
    SectionBuffer,
    Track,
)
from prvr.media import Array, Encoder, Fit, Image, unit_rows
from prvr.scoring import Gallery, score_parts


class SyntheticEncoder(Encoder):
    """Returns synthetic vectors: a sentence is the number of a vector."""

    fit = Fit(8, 8)

    def __init__(self, width: int):
        self.name, self.width, self.word_width = "synthetic", width, width

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return np.zeros((len(images), self.width), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        seeds = [zlib.crc32(text.encode()) if not text.isdigit() else int(text) for text in texts]
        near = scenes_about(self.width)[[seed % 1000 for seed in seeds]]
        return unit_rows(near + 0.7 * np.stack([topics(1, self.width, seed)[0] for seed in seeds]))

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


def topics(count: int, width: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, width), np.float32)


@lru_cache
def scenes_about(width: int) -> Array:
    """A thousand topics, the same in every process."""
    return topics(1000, width, 0)


def walk(frames: int, width: int, rng: np.random.Generator) -> Array:
    """A video: scenes of some seconds, each a variation on one of a thousand topics, with frames that differ a little.

    The cosine of a frame and its topic is about 0.8, that of two scenes of one topic about 0.7.
    """
    lengths = rng.integers(4, 40, frames // 4 + 1)
    lengths = lengths[: int(np.searchsorted(lengths.cumsum(), frames)) + 1]
    scenes = scenes_about(width)[rng.integers(0, 1000, len(lengths))]
    scenes = scenes + 0.6 * rng.standard_normal(scenes.shape, np.float32)
    return unit_rows(np.repeat(scenes, lengths, 0)[:frames] + 0.35 * rng.standard_normal((frames, width), np.float32))


_ALONE = 280  # approximate searches that are timed without exact ones between them
TOGETHER = 512  # videos in a commit
DISTINCT = 100  # videos that differ; the others repeat them, which an exact search cannot tell by its time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=20.0, help="of video at one frame per second")
    parser.add_argument("--videos", type=int, default=0, help="how many, instead of hours")
    parser.add_argument("--minutes", type=float, default=60.0, help="of each video")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--storage", default="fp16", choices=("fp16", "int8", "fp32"))
    parser.add_argument("--local", default="windows", choices=("windows", "frames", "moments"))
    parser.add_argument("--searches", type=int, default=20, help="to compare exact and approximate ones; 0 for none")
    parser.add_argument("--exact", type=int, default=20, help="exact searches; 0 for none")
    parser.add_argument("--cold", type=int, default=0, help="libraries to open and search once, with files on the disk")
    parser.add_argument("--index", action="store_true", help="index candidates too, and compare")
    parser.add_argument("--library", help="folder or lake to make (kept, and used again if it is there)")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp())
    address = args.library or str(scratch / "library")
    encoder = SyntheticEncoder(args.width)
    console = Console(highlight=False)
    overrides = {"frames": encoder}
    if not library_exists(address):
        lib = create_library(address, LibrarySettings("synthetic", storage=args.storage, local=args.local), overrides)
        began = time.perf_counter()
        videos = args.videos or round(args.hours * 60 / args.minutes)
        fill(lib, videos, round(args.minutes * 60), distinct=videos if args.index else DISTINCT)
        console.print(f"filled in {time.perf_counter() - began:.0f} s")
    lib = open_library(address, overrides)
    status = lib.status()
    console.print(
        f"{status.videos} videos, {status.frames} frames, {status.tokens} tokens, {args.width}-d "
        f"{lib.settings.storage} {lib.settings.local}: {status.bytes / 1e9:.2f} GB, "
        f"{status.bytes_per_frame:.0f} bytes per frame"
    )
    for name, request in {
        "exact": SearchRequest("0"),
        "exact, TRACE off": SearchRequest("0", trace=False),
        "exact, by moment": SearchRequest("0", group_by="moment"),
    }.items():
        if not args.exact:
            break
        times = timed(lib, request, args.exact)
        console.print(
            f"{name}: first {1000 * times[0]:.0f} ms, then median {1000 * np.median(times[1:]):.0f} ms, "
            f"90 % within {1000 * np.quantile(times[1:], 0.9):.0f} ms"
        )
    if args.exact:
        began = time.perf_counter()
        lib.search_many([SearchRequest(str(seed)) for seed in range(32)])
        console.print(f"32 searches in one pass: {1000 * (time.perf_counter() - began):.0f} ms")
    if args.cold:
        del lib  # pages that are mapped into memory would stay in the page cache
        for name, forget in (("in the page cache", False), ("on the disk", True)):
            times = 1000 * np.array([first_search(address, overrides, forget) for _ in range(args.cold)])
            console.print(f"opened and searched once, files {name}: median {np.median(times):.0f} ms of {args.cold}")
        lib = open_library(address, overrides)
    if args.index:
        approximate(lib, args.searches, console)
    shutil.rmtree(scratch)


def first_search(address: str, overrides: EncoderOverrides, forget: bool, query: str = "0") -> float:
    """Seconds of the first search of a library in a folder. ``forget``: its files leave the page cache before."""
    for file in Path(address).rglob("*") if forget else ():
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    gc.collect()
    began = time.perf_counter()
    open_library(address, overrides).search(query)
    return time.perf_counter() - began


def approximate(lib: Library, searches: int, console: Console) -> None:
    """Index, then search each sentence both ways in turn, so that other load on the machine affects both."""
    if not lib.store.has_index():
        began = time.perf_counter()
        if not lib.index(report=console.print):
            console.print("too small to index")
            return
        console.print(f"indexed in {time.perf_counter() - began:.0f} s; candidates hold {lib.recall()['frames']}")
    alone = 1000 * np.array(
        timed(lib, SearchRequest("0", approximate=True), _ALONE + 20)[20:]
    )  # the first ones warm up
    median, most = np.quantile(alone, [0.5, 0.95])
    console.print(f"approximate: median {median:.0f} ms of {_ALONE} searches, 95 % within {most:.0f} ms")
    if not searches:
        return
    times: dict[bool, list[float]] = {False: [], True: []}
    found = []
    for seed in range(-2, searches):  # the first two warm up
        hits = {}
        for way, taken in times.items():
            began = time.perf_counter()
            hits[way] = {hit.video.id for hit in lib.search(str(abs(seed)), approximate=way)}
            taken.append(time.perf_counter() - began)
        found.append(len(hits[False] & hits[True]) / len(hits[False]))
    exact, quick = (1000 * np.array(taken[2:]) for taken in times.values())
    console.print(
        f"exact {np.median(exact):.0f} ms, approximate {np.median(quick):.0f} ms (medians; nine of ten within "
        f"{np.quantile(exact, 0.9):.0f} and {np.quantile(quick, 0.9):.0f}): {np.median(exact / quick):.1f} times as "
        f"fast; finds {100 * np.mean(found[2:]):.1f} % of the exact best ten of {searches} queries"
    )


def fill(lib: Library, videos: int, frames: int, distinct: int = DISTINCT) -> None:
    """Add videos of this many frames each, of which ``distinct`` differ."""
    track, made = lib.tracks["frames"], list[SectionBuffer]()
    for first in range(0, videos, TOGETHER):
        numbers = range(first, min(first + TOGETHER, videos))
        fresh = pending(lib, track, [number for number in numbers if number < distinct], frames)
        made += fresh if distinct < videos else []
        items = []
        for number in numbers:
            path = Path(f"/made up/{number:06d}.mp4")
            seconds = float(frames + 10 * (number // distinct))  # so that no search compares it with its twins
            video = NewVideo(path, frames, 0, str(number), duration=seconds, frames=frames)
            items.append(IndexedVideo(video, {"frames": made[number % distinct] if made else fresh[number - first]}))
        lib.store.commit(items)
    lib.store.clean()  # as `prvr library add` does at its end


def pending(lib: Library, track: Track, numbers: Sequence[int], frames: int) -> list[SectionBuffer]:
    """The sections that a track makes of videos, computed for many videos at once, which is ten times as fast."""
    walks = [walk(frames, track.encoder.width, np.random.default_rng((7, number))) for number in numbers]
    found = [SectionBuffer() for _ in walks]
    start = np.arange(frames, dtype=np.float64)
    spans = np.stack([start, start + 1], 1)
    if frames > track.embedding.step or not walks or not isinstance(track.embedding, FrozenEmbedding):
        for walked, each in zip(walks, found, strict=True):
            for section in track.sections([Piece(walked, spans)]):
                each.add(section)
        return found
    embedding, threads = track.embedding, torch.get_num_threads()
    torch.set_num_threads(1)  # products are small
    moments = [embedding.backbone.moments(torch.from_numpy(walked)) for walked in walks]
    tokens = embedding.backbone.join(moments)
    gallery = Gallery.of_tokens(embedding.backbone, embedding.trace, tokens, storage=track.storage, page=PAGE_TOKENS)
    scores = score_parts(torch.from_numpy(track.background), gallery, "torch")
    assert scores.trace is not None
    background = np.stack([scores.base.T.numpy(), scores.trace.T.numpy()], -1)  # (V, B, 2)
    for number, (each, moment) in enumerate(zip(found, moments, strict=True)):
        stored = gallery[number : number + 1].arrays()
        arrays = {name: tensor.numpy() for name, tensor in stored.items() if not name.startswith("keys.")}
        seconds = np.zeros((len(arrays["local.values"]) * PAGE_TOKENS, 2), np.float32)
        seconds[: len(moment.spans)] = moment.spans
        arrays |= {"background": background[number : number + 1], "spans": seconds.reshape(-1, PAGE_TOKENS, 2)}
        each.add(Section(gallery.about, arrays, len(moment.spans)))
    torch.set_num_threads(threads)
    return found


def timed(lib: Library, request: SearchRequest, searches: int) -> list[float]:
    times = []
    for seed in range(searches):
        began = time.perf_counter()
        lib.search_many([replace(request, query=str(seed))])
        times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()
