"""A library of more videos than the first hundred of a track, made of vectors alone: pictures, lines, copies."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prvr.library import Library
from prvr.library.ingest.tracks import FRAMES, TEXT, Piece
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.commit import commit
from prvr.library.store.pending import Indexed, Pending
from prvr.media.encoders.base import Array, Encoder, unit_rows
from prvr.media.frames import Fit, Image

VIDEOS, WIDTH = 160, 16
QUERIES = [f"sentence {number}" for number in range(6)]


class Drawn(Encoder):
    """A sentence is a vector drawn by its letters."""

    fit = Fit(8, 8)
    width = word_width = WIDTH

    def __init__(self, name: str):
        self.name = name

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return np.zeros((len(images), WIDTH), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        return unit_rows(np.stack([drawn(1, zlib.crc32(f"{self.name} {text}".encode()))[0] for text in texts]))

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


def drawn(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, WIDTH), np.float32)


def opened(folder: Path) -> Library:
    return Library.open(folder, encoder=Drawn("pictures"), text_encoder=Drawn("lines"))


def made_library(folder: Path, videos: int = VIDEOS) -> Library:
    """Every tenth video is a copy of the one before it; some have no pictures, and a third nothing to say."""
    lib = Library.create(folder, encoder=Drawn("pictures"), text_encoder=Drawn("lines"))
    items = []
    for number in range(videos):
        seed = number - (number % 10 == 9)
        frames = 6 + seed % 13
        start = np.arange(frames, dtype=np.float64)
        held = {}
        for name in (FRAMES, TEXT):
            if (name == TEXT and number % 3 == 0) or (name == FRAMES and number % 40 == 1):
                continue
            held[name] = Pending(folder)
            vectors = unit_rows(drawn(frames, 2 * seed + (name == TEXT)))
            for section in lib.tracks[name].sections([Piece(vectors, np.stack([start, start + 1], 1))]):
                held[name].add(section)
        path = Path(f"/made up/{number % 4}/{number:03d}.mp4")
        items.append(Indexed(NewVideo(path, 1, 0, str(number), duration=float(frames), frames=frames), held))
    commit(lib.catalogue, folder, items)
    return lib
