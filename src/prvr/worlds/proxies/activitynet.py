"""ActivityNet across annotators: frames from one person's timed captions, queries in another person's words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from prvr.data import DataError, text_lines
from prvr.worlds.proxies.source import (
    Label,
    LabelScript,
    ProxySource,
    annotate_sentences,
    assign_splits,
    clamp_span,
    find_annotation_file,
    one_line,
    require_video_id,
    sentence_query,
)
from prvr.worlds.script import Query, Script

_ARCHIVE = "it is in the caption archive on the ActivityNet Captions page (dense-captioning events in videos)"
_PARTS = {"train": 3500, "val": 385, "test": 1000}  # of the 4,885 videos that both annotators described
SWAPPED = "_swapped"  # ends the id of a training video whose two annotators are exchanged

Captions = dict[str, tuple[float, list[Label | None]]]  # by video: its length, and captions in the file's order


def read_activitynet(folder: str | Path, *, both_directions: bool = False, exchanged: bool = False) -> ProxySource:
    """Read val_1 (frames) and val_2 (queries).

    Args:
        folder: where the two files are, plain or gzipped.
        both_directions: add every training video a second time, with the roles of the two files exchanged.
        exchanged: frames from val_2 and queries from val_1, in every split.
    """
    folder, notes = Path(folder), list[str]()
    first = read_captions_file(find_annotation_file(folder, "val_1.json", _ARCHIVE), notes)
    second = read_captions_file(find_annotation_file(folder, "val_2.json", _ARCHIVE), notes)
    if exchanged:
        first, second = second, first
    shared = sorted(first.keys() & second.keys())
    total = sum(_PARTS.values())
    assigned = assign_splits(shared, {split: round(len(shared) * part / total) for split, part in _PARTS.items()})
    if len(shared) != total:
        notes.append(f"{len(shared):,} videos are in both files, {total:,} were expected; splits keep the proportions")
    scripts = {split: tuple(_script(video, first[video]) for video in videos) for split, videos in assigned.items()}
    queries = {
        split: [q for video in videos for q in _queries(video, second[video])] for split, videos in assigned.items()
    }
    if both_directions:
        for video in assigned["train"]:
            scripts["train"] += (_script(video + SWAPPED, second[video]),)
            queries["train"] += _queries(video + SWAPPED, first[video])
    annotations = {}
    for split, videos in scripts.items():
        annotations[split] = annotate_sentences(videos, queries[split])
        described = {query.video for query in queries[split]}
        # A video without a query is left out: no split would read it.
        scripts[split] = tuple(script for script in videos if script.video in described)
    return ProxySource("activitynet", scripts, annotations, tuple(notes))


def read_captions_file(path: Path, notes: list[str]) -> Captions:
    """``{video: {duration, timestamps, sentences}}``; a caption without words keeps its number but is left out."""
    try:
        table = json.loads("\n".join(line for _, line in text_lines(path)))
    except (ValueError, RecursionError) as problem:
        raise DataError(
            f"{path} is not JSON ({problem}); it is cut short or another file: download it again."
        ) from problem
    if not isinstance(table, dict) or not table:
        raise DataError(f"{path} should hold one JSON object with an entry per video.")
    captions_of: Captions = {}
    empty = 0
    for video, entry in table.items():
        where = f"{path}, '{video[:40]}'"
        seconds, pairs = _entry(entry, where)
        captions = [
            Label(*clamp_span(start, end, seconds), one_line(text)) if one_line(text) else None
            for text, start, end in pairs
        ]
        empty += captions.count(None)
        captions_of[require_video_id(video, where)] = seconds, captions
    if empty:
        notes.append(f"{path.name}: {empty} captions without words were left out")
    return captions_of


def _entry(entry: Any, where: str) -> tuple[float, list[tuple[str, float, float]]]:
    """Length, and (sentence, start, end) of each caption, checked."""
    expected = "expected 'duration', 'timestamps' (pairs of seconds) and as many 'sentences'"
    try:
        seconds, stamps, sentences = float(entry["duration"]), entry["timestamps"], entry["sentences"]
        pairs = [(text, float(start), float(end)) for text, (start, end) in zip(sentences, stamps, strict=True)]
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"{where}: {expected} ({type(problem).__name__}: {problem}).") from problem
    numbers = [seconds, *(time for _, start, end in pairs for time in (start, end))]
    if not all(map(math.isfinite, numbers)) or seconds <= 0 or not all(isinstance(text, str) for text, *_ in pairs):
        raise DataError(f"{where}: {expected}, finite and with a duration above 0.")
    return seconds, pairs


def _script(video: str, captions: tuple[float, list[Label | None]]) -> LabelScript:
    seconds, labels = captions
    return Script(video, (), seconds, tuple(label for label in labels if label is not None))


def _queries(video: str, captions: tuple[float, list[Label | None]]) -> list[Query[Label]]:
    return [
        sentence_query(video, number, label.start, label.end, label.text)
        for number, label in enumerate(captions[1])
        if label is not None
    ]
