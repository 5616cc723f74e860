"""What annotations say about videos, before anything is embedded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prvr.data.annotations import Annotation
from prvr.data.captions import Moment
from prvr.data.errors import DataError

SPLITS = ("train", "val", "test")
_SPLIT_SEED = 20260712  # fixed: every variant of a proxy has the same videos in the same split


@dataclass(frozen=True)
class Label:
    """Something that happens from ``start`` to ``end``, in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Story:
    """A video as annotators told it."""

    video: str
    seconds: float
    labels: tuple[Label, ...]
    context: tuple[str, ...] = ()  # what is true throughout: scene, objects


@dataclass(frozen=True)
class Told:
    """A sentence about a stretch of a video; ``number`` is its place among the video's sentences in the file."""

    video: str
    number: int
    sentence: str
    start: float
    end: float


@dataclass(frozen=True)
class Source:
    """Stories and queries by split, and what had to be put right while reading."""

    name: str
    stories: Mapping[str, tuple[Story, ...]]
    queries: Mapping[str, tuple[Annotation, ...]]
    notes: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """Every text that appears on the video side, sorted."""
        stories = [story for split in self.stories.values() for story in split]
        found = {label.text for story in stories for label in story.labels}
        return sorted(found | {text for story in stories for text in story.context})


def find_file(folder: Path, name: str, whence: str) -> Path:
    """A file, plain or gzipped, in a folder or one level below it; ``whence`` says where people get it."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder that holds the annotation files.")
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        for path in (place / name, place / f"{name}.gz"):
            if path.is_file():
                return path
    raise DataError(f"{folder} holds no {name}, neither plain nor gzipped (.gz): {whence}.")


def as_annotations(told: Iterable[Told], seconds: Mapping[str, float]) -> tuple[Annotation, ...]:
    """Queries of one split. A sentence that stands for several videos, word for word, is true of all of them."""
    told = list(told)
    videos: dict[str, dict[str, None]] = {}
    for each in told:
        videos.setdefault(_words(each.sentence), {})[each.video] = None
    return tuple(
        Annotation(
            id=f"{each.video}#enc#{each.number}",
            sentence=each.sentence,
            moment=Moment(each.video, *within(each.start, each.end, seconds[each.video]), seconds[each.video]),
            positives=(each.video, *(other for other in videos[_words(each.sentence)] if other != each.video)),
        )
        for each in told
    )


def within(start: float, end: float, seconds: float) -> tuple[float, float]:
    """A stretch in order and inside its video.

    >>> within(38.0, 13.0, 30.0)
    (13.0, 30.0)
    """
    first, last = sorted((start, end))
    return min(max(first, 0.0), seconds), min(max(last, 0.0), seconds)


def divided(names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Names dealt out to splits at random, always the same way; what ``sizes`` leaves over goes to its first split."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(names))
    dealt, rest = {}, [sorted(names)[row] for row in order]
    for split in reversed(list(sizes)[1:]):
        dealt[split], rest = sorted(rest[: sizes[split]]), rest[sizes[split] :]
    dealt[next(iter(sizes))] = sorted(rest)
    for split in sizes:
        if not dealt[split]:
            raise DataError(f"{len(names)} annotated videos are too few to fill the splits {', '.join(sizes)}.")
    return dealt


def plain(sentence: str) -> str:
    """A sentence on one line, blanks made single."""
    return " ".join(sentence.split())


def require_name(video: str, where: str) -> str:
    """A video id that can name a dataset and open a caption line."""
    if not video or re.search(r"[\s#/]", video) or set(video) == {"."}:
        raise DataError(f"{where}: '{video[:40]}' cannot be a video id; expected no blank, '#' or '/' in it.")
    return video


def numbered(videos: Iterable[str]) -> Iterator[int]:
    """For each name, how often it came before: the K of VIDEO#enc#K."""
    seen: dict[str, int] = {}
    for video in videos:
        seen[video] = seen.get(video, -1) + 1
        yield seen[video]


def _words(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.casefold()))
