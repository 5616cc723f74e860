"""Benchmarks of ``prvr library add``: the whole of it beside decoding alone and encoding alone, on the same films."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from prvr.bench.corpus import BenchmarkSizes
from prvr.bench.measure import Measurement, MemoryPeak
from prvr.bench.models import SIDE, random_model
from prvr.library import Library, LibraryError, find_videos
from prvr.media import (
    Array,
    DecodedFile,
    Encoder,
    Fit,
    FrameBatch,
    Image,
    PlainEncoder,
    Sampling,
    decode_videos,
    encode_videos,
    open_video,
    picture_engine,
    unit_rows,
)
from prvr.processes import usable_cores
from prvr.worlds import RenderConfig, render_world

_RATE = 1.0  # samples per second of video
_SECONDS, _GPU_SECONDS = 20.0, 30.0  # of adding: beside them, starting the decoders must be short


class RandomImageText(Encoder):
    """An image–text encoder of real size with random weights. Its sentences mean nothing."""

    name, width, word_width, weights = "random-vit-b-16", 768, 768, "random"
    fit = Fit(SIDE, SIDE, "stretch", "bilinear")
    sees_motion = False

    def __init__(self, device: torch.device, layers: int):
        after = 0 if device.type == "cuda" else 1 << 60  # compiled from the start, as long work is
        model = random_model(device, layers)
        fast = picture_engine(model, SIDE, device).engines[-1]
        self.engine = picture_engine(model, SIDE, device, engine=fast, compile_after=after)
        self.batch = self.engine.batch

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return self.start_frames(np.stack(images))()

    def start_frames(
        self, images: Sequence[Image] | NDArray[np.uint8], before: Image | None = None
    ) -> Callable[[], Array]:
        vectors = self.engine.start(np.asarray(images))
        return lambda: unit_rows(vectors())

    def encode_texts(self, texts: Sequence[str]) -> Array:
        return unit_rows(np.random.default_rng(0).standard_normal((len(texts), self.width), np.float32))

    def encode_words(self, text: str) -> Array:
        return self.encode_texts(text.split() or [""])


class _Pictures(DecodedFile):
    """Pictures that need no decoding."""

    def __init__(self, how: Sampling, count: int):
        self.how, self.count = how, count

    def batches(self) -> Generator[FrameBatch, None, None]:
        pictures: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, self.how.shape, np.uint8)
        for first in range(0, self.count, self.how.batch):
            times = np.arange(first, min(self.count, first + self.how.batch), dtype=np.float64)
            yield FrameBatch(times, pictures[: len(times)], np.ones(len(times), bool))


def adding(
    device: torch.device, sizes: BenchmarkSizes, encoders: Sequence[str] = ("plain", "ViT-B/16")
) -> Iterator[Measurement]:
    """Samples a second that are decoded, encoded, and added to a library, with one encoder after the other."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        paths = _rendered(place / "films", sizes) if sizes.folder is None else films_in(sizes.folder)
        for name in encoders:
            encoder = PlainEncoder() if name == "plain" else RandomImageText(device, sizes.layers)
            yield from _measured(encoder, name, paths, place, sizes, device)


def _rendered(folder: Path, sizes: BenchmarkSizes) -> list[Path]:
    """Films of real size, drawn on the spot."""
    long, (width, height) = sizes.film_seconds, sizes.film_size
    config = RenderConfig(
        train=max(1, sizes.films - 2), val=1, test=1, events=(2, 3), seconds=(long, long), width=width, height=height,
        fps=25,
    )  # fmt: skip
    world = render_world(folder, config, workers=usable_cores())
    return sorted(world.videos.values())


def films_in(folder: Path) -> list[Path]:
    """The videos of a folder on this machine; a ``LibraryError`` where there are none."""
    films = [path for path in find_videos([folder]) if isinstance(path, Path)]
    if not films:
        raise LibraryError(f"no video was found in {folder}")
    return films


def _measured(
    encoder: Encoder, name: str, films: list[Path], place: Path, sizes: BenchmarkSizes, device: torch.device
) -> Iterator[Measurement]:
    how = Sampling.of(encoder, _RATE)
    cores = usable_cores()
    tried = films * max(1, round(4 * cores / len(films)))  # enough to keep all processes busy
    few, seconds, _ = _decode(tried, how)
    decode_rate = few / seconds
    _encode(encoder, how, encoder.batch)  # for the first time
    encode_rate = encoder.batch / _encode(encoder, how, encoder.batch)
    wanted = sizes.add_seconds
    if wanted is None:
        wanted = _GPU_SECONDS if device.type == "cuda" and name != "plain" else _SECONDS
    paths = _enough(films, few / len(tried), wanted * min(decode_rate, encode_rate), place / encoder.name)
    count, seconds, start = _decode(paths, how)
    decoded = Measurement(
        "adding",
        f"decode alone for {name}: {how.fit.width} × {how.fit.height}, {cores} processes",
        seconds,
        count / seconds,
        "samples/s",
        note=f"{_about(films[0], len(paths), count)}; the processes were there after {start:.1f} s",
    )
    yield decoded
    seconds = _encode(encoder, how, count)
    if device.type == "cuda":  # quick, and the first time may be slow
        seconds = min(seconds, _encode(encoder, how, count), _encode(encoder, how, count))
    encoded = Measurement("adding", f"encode alone, {name}", seconds, count / seconds, "samples/s")
    yield encoded
    yield _added(encoder, name, paths, place, device, count / decoded.seconds, count / encoded.seconds)
    shutil.rmtree(place / encoder.name)


def _added(
    encoder: Encoder, name: str, paths: list[Path], place: Path, device: torch.device, decode: float, encode: float
) -> Measurement:
    folder = place / f"library-{encoder.name}"
    library = Library.create(folder, encoder=encoder, rate=_RATE, repeats=0.0)  # encodes all
    with MemoryPeak(device) as peak:
        began = time.perf_counter()
        report = library.add_files(paths)
        seconds = time.perf_counter() - began
    count = library.status().frames
    rate = count / seconds
    failed = f"; {len(report.failed)} files failed" if report.failed else ""
    both = 1 / (1 / decode + 1 / encode)
    shared = "" if device.type == "cuda" and name != "plain" else f"; {rate / both:.0%} of both on the same cores"
    gpu = f" and {peak.gpu / 1e6:,.0f} MB on the GPU" if peak.gpu else ""
    return Measurement(
        "adding",
        f"library add, {name}",
        seconds,
        rate,
        "samples/s",
        rate / min(decode, encode),
        peak.bytes,
        note=f"share of the slower, {'decode' if decode < encode else 'encode'}{shared}; "
        f"memory of {peak.processes} processes{gpu}{failed}",
    )


def _decode(paths: list[Path], how: Sampling) -> tuple[int, float, float]:
    """Decode all films. Returns the number of samples, the seconds for them, and those before until the start."""
    files = decode_videos(paths, how, expected=len(paths), start_after=0, wait=True)
    started = time.perf_counter()
    first = next(files)  # when all processes are there
    began = time.perf_counter()
    count = sum(len(batch.times) for file in chain([first], files) for batch in file.batches())
    return count, time.perf_counter() - began, began - started


def _encode(encoder: Encoder, how: Sampling, count: int) -> float:
    """Encode so many pictures. Returns the seconds."""
    began = time.perf_counter()
    for video in encode_videos([_Pictures(how, count)], encoder):
        for _ in video.parts():
            pass
    return time.perf_counter() - began


def _enough(films: list[Path], samples: float, wanted: float, folder: Path) -> list[Path]:
    """As many films as have the wanted number of samples: some of them, or copies of all."""
    folder.mkdir()
    paths = []
    for number in range(max(1, round(wanted / samples))):
        film = films[number % len(films)]
        paths.append(folder / f"{number:05}{film.suffix}")
        paths[-1].symlink_to(film.absolute())
    return paths


def _about(film: Path, files: int, samples: int) -> str:
    with open_video(film) as video:
        info = video.info
    return f"{files} films, {samples} samples; the first is {info.width} × {info.height} {info.codec}, {info.fps:g} fps"
