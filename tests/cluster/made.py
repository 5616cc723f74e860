"""A library of random vectors with more videos than the hundred of a track that count in a fusion."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prvr.library import FRAMES, TEXT, IndexedVideo, Library, NewVideo, Piece, SectionBuffer, commit_videos
from prvr.media import Array, Encoder, Fit, Image, TextEncoder, unit_rows

VIDEOS, WIDTH = 160, 16
QUERIES = [f"sentence {number}" for number in range(6)]


class Drawn(Encoder):
    """Sentences become random vectors, seeded by their letters."""

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


class WordEncoder(TextEncoder):
    """Sentences as sets of words: enough to find a line."""

    name, width, word_width = "words", 64, 64

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[sum(map(ord, word)) % self.width] += 1
        return unit_rows(rows)

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


def drawn(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, WIDTH), np.float32)


def open_made_library(folder: Path) -> Library:
    return Library.open(folder, encoder=Drawn("pictures"), text_encoder=Drawn("lines"))


def made_library(folder: Path, videos: int = VIDEOS) -> Library:
    """Every tenth video is a copy of the one before it; some have no frames, and a third have no text."""
    lib = Library.create(folder, encoder=Drawn("pictures"), text_encoder=Drawn("lines"))
    items = []
    for number in range(videos):
        seed = number - (number % 10 == 9)
        frames = 6 + seed % 13
        start = np.arange(frames, dtype=np.float64)
        tracks = {}
        for name in (FRAMES, TEXT):
            if (name == TEXT and number % 3 == 0) or (name == FRAMES and number % 40 == 1):
                continue
            tracks[name] = SectionBuffer(folder)
            vectors = unit_rows(drawn(frames, 2 * seed + (name == TEXT)))
            for section in lib.tracks[name].sections([Piece(vectors, np.stack([start, start + 1], 1))]):
                tracks[name].add(section)
        path = Path(f"/made up/{number % 4}/{number:03d}.mp4")
        items.append(IndexedVideo(NewVideo(path, 1, 0, str(number), duration=float(frames), frames=frames), tracks))
    commit_videos(lib.catalogue, folder, items)
    return lib
