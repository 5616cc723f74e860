"""What annotations say about videos, before anything is embedded: a common form for all annotation files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from prvr.data import Annotation, DataError
from prvr.worlds.script import Event, Query, Script, annotate

_SPLIT_SEED = 20260712  # fixed: every variant of a proxy has the same videos in the same split


@dataclass(frozen=True)
class Label(Event):
    """What an annotator says happens from ``start`` to ``end``, in seconds."""

    text: str


LabelScript: TypeAlias = Script[Label, tuple[str, ...]]  # the setting holds what is true throughout: scene, objects


@dataclass(frozen=True)
class ProxySource:
    """Scripts and annotated queries by split, and notes on what was corrected while reading."""

    name: str
    scripts: Mapping[str, tuple[LabelScript, ...]]
    annotations: Mapping[str, tuple[Annotation, ...]]
    notes: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """Every text that appears on the video side, sorted."""
        scripts = [script for split in self.scripts.values() for script in split]
        labels = {label.text for script in scripts for label in script.events}
        return sorted(labels | {text for script in scripts for text in script.setting})


def find_annotation_file(folder: Path, name: str, origin: str) -> Path:
    """A file, plain or gzipped, in a folder or one level below it; ``origin`` says where to get it."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder that holds the annotation files.")
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        for path in (place / name, place / f"{name}.gz"):
            if path.is_file():
                return path
    raise DataError(f"{folder} holds no {name}, neither plain nor gzipped (.gz): {origin}.")


def sentence_query(video: str, number: int, start: float, end: float, sentence: str) -> Query[Label]:
    """A query in an annotator's own words; ``number`` is its position among the video's sentences in the file."""
    return Query(f"{video}#enc#{number}", video, Label(start, end, sentence), ("text",), sentence)


def annotate_sentences(scripts: Sequence[LabelScript], queries: Iterable[Query[Label]]) -> tuple[Annotation, ...]:
    """The queries of one split as annotations. A sentence that occurs with several videos is true of all of them."""
    length = {script.video: script.length for script in scripts}
    inside, videos = list[Query[Label]](), dict[str, dict[str, None]]()
    for query in queries:
        start, end = clamp_span(query.event.start, query.event.end, length[query.video])
        inside.append(replace(query, event=replace(query.event, start=start, end=end)))
        videos.setdefault(_words(query.sentence), {})[query.video] = None
    positives = [tuple(dict.fromkeys([query.video, *videos[_words(query.sentence)]])) for query in inside]
    return tuple(annotate(scripts, inside, positives))


def clamp_span(start: float, end: float, length: float) -> tuple[float, float]:
    """Start and end in order and inside their video.

    >>> clamp_span(38.0, 13.0, 30.0)
    (13.0, 30.0)
    """
    first, last = sorted((start, end))
    return min(max(first, 0.0), length), min(max(last, 0.0), length)


def assign_splits(names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Assign names to splits at random, always the same way; what ``sizes`` leaves over goes to its first split."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(names))
    assigned, rest = {}, [sorted(names)[row] for row in order]
    for split in reversed(list(sizes)[1:]):
        assigned[split], rest = sorted(rest[: sizes[split]]), rest[sizes[split] :]
    assigned[next(iter(sizes))] = sorted(rest)
    for split in sizes:
        if not assigned[split]:
            raise DataError(f"{len(names)} annotated videos are too few to fill the splits {', '.join(sizes)}.")
    return assigned


def one_line(sentence: str) -> str:
    """A sentence on one line, with single spaces."""
    return " ".join(sentence.split())


def require_video_id(video: str, where: str) -> str:
    """Return a video id that can name a dataset and start a caption line; refuse any other."""
    if not video or re.search(r"[\s#/]", video) or set(video) == {"."}:
        raise DataError(f"{where}: '{video[:40]}' cannot be a video id; expected no blank, '#' or '/' in it.")
    return video


def occurrence_numbers(videos: Iterable[str]) -> Iterator[int]:
    """For each name, how often it occurred before: the K of VIDEO#enc#K."""
    counts: dict[str, int] = {}
    for video in videos:
        counts[video] = counts.get(video, -1) + 1
        yield counts[video]


def _words(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.casefold()))
