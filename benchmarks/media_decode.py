"""``python benchmarks/media_decode.py``: how fast a video becomes features, beside what PyAV alone decodes.

    python benchmarks/media_decode.py                     # 120 s of 640×360 H.264, which it makes first
    python benchmarks/media_decode.py --video FILE        # a file of yours

Both are measured in turns, so that other work on the machine slows both. It prints a table and asserts nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
from rich.console import Console
from rich.table import Table

from prvr.library import Library
from prvr.media import Fit, Image, feature_parts, open_encoder, open_video, write_video

SIGLIP2 = Fit(224, 224, "stretch", "bilinear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--video", type=Path, default=None, help="a file to measure with (default: one is made)")
    parser.add_argument("--seconds", type=float, default=120, help="length of the video that is made")
    parser.add_argument("--rate", type=float, default=1.0, help="samples per second")
    parser.add_argument("--rounds", type=int, default=7, help="repetitions, of which the median counts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.video or write_video(Path(folder) / "film.mp4", film(args.seconds), fps=25, options={"g": "250"})
        measure(path, args.rate, args.rounds)
        if args.video is None:
            short = write_video(Path(folder) / "keys.mp4", film(args.seconds), fps=25, options={"g": "25"})
            jumps(short, args.rounds)


def measure(path: Path, rate: float, rounds: int) -> None:
    encoder = open_encoder("plain")
    ways: dict[str, Callable[[], object]] = {
        "PyAV alone: decode every frame": lambda: decode_all(path),
        "read: samples at the encoder's size": lambda: count(open_video(path).frames(rate, encoder.fit)),
        "read: samples at 224×224, as SigLIP 2's processor": lambda: count(open_video(path).frames(rate, SIGLIP2)),
        "read and encode (plain)": lambda: count(feature_parts(open_video(path), encoder, rate)),
        "add to a library (plain)": lambda: add(path, rate),
    }
    with open_video(path) as video:
        seconds = video.info.duration or 0.0
        about = f"{video.info.width}×{video.info.height} {video.info.codec}, {seconds:.0f} s, at {rate:g} per second"
    show(f"{about} ({video.decoder})", timed(ways, rounds), seconds)


def add(path: Path, rate: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Library.create(Path(folder) / "library", encoder="plain", rate=rate).add([path])


def jumps(path: Path, rounds: int) -> None:
    """Key frames every second, a sample every ten: seeking against decoding everything."""
    ways: dict[str, Callable[[], object]] = {
        "PyAV alone: decode every frame": lambda: decode_all(path),
        "read at 0.1 per second (seeks)": lambda: count(open_video(path).frames(0.1, Fit(48, 48))),
    }
    show("key frames every second", timed(ways, rounds), open_video(path).info.duration or 0.0)


def timed(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if turn:  # the first round warms the file cache
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def show(title: str, times: dict[str, float], seconds: float) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("", "seconds", "× real time", "speed against PyAV alone"):
        table.add_column(column, justify="left" if not column else "right")
    first = next(iter(times.values()))
    for name, taken in times.items():
        table.add_row(name, f"{taken:.3f}", f"{seconds / taken:.0f}", f"{100 * first / taken:.0f} %")
    Console().print(table)


def decode_all(path: Path) -> int:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        return sum(1 for _ in container.decode(stream))


def count(items: Iterator[object]) -> int:
    return sum(1 for _ in items)


def film(seconds: float, fps: int = 25, width: int = 640, height: int = 360) -> Iterator[Image]:
    """A textured scene that pans, with things that move in front of it, and noise."""
    rng = np.random.default_rng(0)
    scene = np.kron(rng.integers(0, 256, (60, 180, 3)), np.ones((8, 8, 1))).astype(np.int16)
    for number in range(round(seconds * fps)):
        left = number % (scene.shape[1] - width)
        image = scene[:height, left : left + width] + rng.integers(-6, 7, (height, width, 1), dtype=np.int16)
        for thing in range(4):
            x, y = (number * (3 + thing) + 150 * thing) % (width - 80), 40 + 70 * thing
            image[y : y + 60, x : x + 80] = (60 * thing, 255 - 60 * thing, 128)
        yield np.clip(image, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    main()
