"""A library made of drawn vectors, and a few hundred searches of it whose answers are known (``answers.json``).

The answers were written by prvr 0.1.0, before the search was rewritten as one line of steps, and eleven of them again
when all moments that touch became one. ``python -m tests.library.search.drawn_library`` writes all of them again, from
the code at hand.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prvr.library import (
    FRAMES,
    TEXT,
    Filters,
    IndexedVideo,
    Library,
    MomentOptions,
    NewVideo,
    Piece,
    SearchRequest,
    SearchResult,
    SectionBuffer,
)
from prvr.library.ingest import frozen
from prvr.media import Array, Encoder, Fit, Image, unit_rows

ANSWERS = Path(__file__).with_name("answers.json")
VIDEOS, WIDTH, SEARCHES = 120, 16, 160
SHOWN = 6  # hits of each answer that are compared
FILTERS = (
    Filters(folder=Path("/made up/1")),
    Filters(tags=("home",)),
    Filters(tags=("home", "dog"), min_duration=10.0),
    Filters(max_duration=9.5),
    Filters(tags=("nothing has it",)),
    Filters(min_duration=60.0, folder=Path("/made up")),
)


class DrawnEncoder(Encoder):
    """A sentence is a vector drawn by its letters. "blind" sentences mean nothing to pictures, "silent" to lines."""

    fit = Fit(8, 8)
    width = word_width = WIDTH

    def __init__(self, name: str):
        self.name = name

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return np.zeros((len(images), WIDTH), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = np.stack([draw(1, zlib.crc32(f"{self.name} {text}".encode()))[0] for text in texts])
        ignored = {"pictures": "blind", "lines": "silent"}[self.name]
        return unit_rows(rows) * np.array([[ignored not in text] for text in texts], np.float32)

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


def draw(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, WIDTH), np.float32)


def drawn_library(folder: Path) -> Library:
    """Two tracks; long videos of several sections, copies, videos without pictures or without lines, two removed."""
    usual = frozen.SECTION_SAMPLES
    frozen.SECTION_SAMPLES = 32
    try:
        encoders = {"encoder": DrawnEncoder("pictures"), "text_encoder": DrawnEncoder("lines")}
        library = Library.create(folder, storage="fp32", **encoders)  # half floats differ between processors
        library.store.commit([_video(library, number) for number in range(VIDEOS)])
    finally:
        frozen.SECTION_SAMPLES = usual
    library.remove(["/made up/2/010.mp4", "/made up/3/111.mp4"])
    return library


def _video(library: Library, number: int) -> IndexedVideo:
    seed = number - (number % 10 == 9)  # every tenth is a copy of the one before it
    frames = 6 + seed % 13 if seed % 7 else 40 + seed % 60
    start = np.arange(frames, dtype=np.float64)
    tracks = {}
    for name in (FRAMES, TEXT):
        if (name == TEXT and number % 3 == 0) or (name == FRAMES and number % 40 == 1):
            continue
        tracks[name] = SectionBuffer(library.folder)
        vectors = unit_rows(draw(frames, 2 * seed + (name == TEXT)))
        for section in library.tracks[name].sections([Piece(vectors, np.stack([start, start + 1], 1))]):
            tracks[name].add(section)
    path = Path(f"/made up/{number % 4}/{number:03d}.mp4")
    tags = tuple(tag for tag, every in (("home", 2), ("dog", 5)) if number % every == 0)
    return IndexedVideo(NewVideo(path, 1, 0, str(number), duration=float(frames), frames=frames, tags=tags), tracks)


def requests(seed: int = 0, count: int = SEARCHES) -> list[SearchRequest]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        kind = ("", " silent", " blind", " silent blind")[rng.choice(4, p=[0.55, 0.25, 0.17, 0.03])]
        found.append(
            SearchRequest(
                f"sentence {seed} {rng.integers(60)}{kind}",
                limit=int(rng.choice([1, 3, 5, 10, 50])),
                offset=int(rng.choice([0, 0, 0, 2, 7, 40, 100])),
                group_by="moment" if rng.random() < 0.35 else "video",
                filters=FILTERS[rng.integers(len(FILTERS))] if rng.random() < 0.4 else Filters(),
                trace=bool(rng.random() < 0.75),
                moments=MomentOptions(other=0.3, merge=0.0) if rng.random() < 0.3 else MomentOptions(),
            )
        )
    return found


def summary(result: SearchResult) -> dict[str, Any]:
    """What is compared of an answer."""
    return {
        "total": result.total,
        "next": result.next_offset,
        "count": len(result),
        "hits": [
            [hit.video.id, hit.start, hit.end, hit.score, hit.track, hit.ranks, len(hit.moments)]
            for hit in result[:SHOWN]
        ],
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        library = drawn_library(Path(place) / "library")
        rows = [summary(library.search_many([request])[0]) for request in requests()]
    rounded = json.loads(json.dumps(rows), parse_float=lambda text: round(float(text), 6))
    ANSWERS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rounded) + "\n]\n")


if __name__ == "__main__":
    main()
