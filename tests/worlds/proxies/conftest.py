"""Annotation files of our own making, in the formats of the real ones, and an encoder that needs no weights."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from prvr.media.encoders.base import Array, TextEncoder, unit_rows

ACTIONS = ("Feeding a parrot", "Folding a kite", "Painting a fence", "Tuning a harp", "Stacking bricks", "Waxing skis")
SCENES = ("Greenhouse (A house of glass)", "Boathouse", "Attic / Loft", "Other")


class StubEncoder(TextEncoder):
    """A word's vector follows from its letters; a text's is the mean of its words'."""

    name = "stub"
    width = word_width = 24

    def __init__(self) -> None:
        self.calls = 0

    def encode_texts(self, texts: Sequence[str]) -> Array:
        return unit_rows(np.stack([self.encode_words(text).mean(0) for text in texts]))

    def encode_words(self, text: str) -> Array:
        self.calls += 1
        seeds = [hashlib.sha256(word.encode()).digest()[:8] for word in text.casefold().strip(".").split()]
        rows = [np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(self.width) for seed in seeds]
        return np.stack(rows).astype(np.float32)


@pytest.fixture
def encoder() -> StubEncoder:
    return StubEncoder()


@pytest.fixture
def other_encoder() -> StubEncoder:
    """The same, but from other weights."""
    other = StubEncoder()
    other.weights = "another file"
    return other


def charades_files(folder: Path, train: int = 48, test: int = 16) -> Path:
    """Each video does two things, one after the other, and two sentences speak of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    classes = "".join(f"c{number:03d} {name}\n" for number, name in enumerate(ACTIONS))
    (folder / "Charades_v1_classes.txt").write_text(classes)
    for split, count in (("train", train), ("test", test)):
        table, told = ["id,subject,scene,script,objects,descriptions,actions,length"], []
        for number in range(count):
            video = f"{split[:2].upper()}{number:03d}"
            first, second = number % 6, (number // 6 + 1 + number) % 6
            actions = f"c{first:03d} 0.00 6.10;c{second:03d} 6.00 30.00"
            scene = SCENES[number % 4]
            table.append(f'{video},S1,{scene},"never, read",box;lamp,"nor\nthis",{actions},{10 + number % 7}.50')
            told.append(f"{video} 0.0 6.0##someone is {ACTIONS[first].lower()}.")
            told.append(f"{video} 0.0 5.5##a person {number} was {ACTIONS[first].lower()} .")
        if split == "train":
            told[0] = told[0].replace("0.0 6.0##", "6.0 0.0##")
        with gzip.open(folder / f"Charades_v1_{split}.csv.gz", "wt") as file:
            file.write("\n".join(table) + "\n")
        (folder / f"charades_sta_{split}.txt").write_text("\n".join(told) + "\n")
    return folder


def activitynet_files(folder: Path, count: int = 40) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for annotator in (1, 2):
        table = {}
        for number in range(count + annotator):  # each file has videos of its own
            video = f"v_{'-_'[number % 2]}x{number if number < count else 100 * annotator + number}"
            topic = ACTIONS[number % 6].lower()
            said = [f" Annotator {annotator} sees\n{topic} {number}.", "  ", f"Then {topic} ends."]
            stamps = [[0, 9.0], [9.0, 9.5], [12.0, 10.0]]
            table[video] = {"duration": 12.5 + number, "timestamps": stamps, "sentences": said}
        with gzip.open(folder / f"val_{annotator}.json.gz", "wt") as file:
            json.dump(table, file)
    return folder


@pytest.fixture
def larger(tmp_path: Path) -> Path:
    """Enough videos to learn from."""
    return charades_files(tmp_path / "larger", train=320, test=60)


@pytest.fixture
def charades(tmp_path: Path) -> Path:
    return charades_files(tmp_path / "annotations" / "charades_sta")


@pytest.fixture
def activitynet(tmp_path: Path) -> Path:
    return activitynet_files(tmp_path / "annotations" / "captions")
