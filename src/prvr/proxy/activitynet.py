"""ActivityNet across annotators: frames from one person's captions at their times, queries in another's words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from prvr.data.errors import DataError
from prvr.data.textfiles import text_lines
from prvr.proxy.stories import (
    Label,
    Source,
    Story,
    Told,
    as_annotations,
    divided,
    find_file,
    plain,
    require_name,
    within,
)

_ARCHIVE = "it is in the caption archive on the ActivityNet Captions page (dense-captioning events in videos)"
_PARTS = {"train": 3500, "val": 385, "test": 1000}  # of the 4,885 videos that both annotators described
SWAPPED = "_swapped"  # ends the id of a training video told the other way round

Captions = dict[str, tuple[float, list[Label | None]]]  # by video: its length, and captions in the file's order


def read_activitynet(folder: str | Path, *, both_directions: bool = False) -> Source:
    """Read val_1 (frames) and val_2 (queries); ``both_directions`` adds training videos with the two exchanged."""
    folder, notes = Path(folder), list[str]()
    first = read_captions_file(find_file(folder, "val_1.json", _ARCHIVE), notes)
    second = read_captions_file(find_file(folder, "val_2.json", _ARCHIVE), notes)
    shared = sorted(first.keys() & second.keys())
    total = sum(_PARTS.values())
    dealt = divided(shared, {split: round(len(shared) * part / total) for split, part in _PARTS.items()})
    if len(shared) != total:
        notes.append(f"{len(shared):,} videos are in both files, {total:,} were expected; splits keep the proportions")
    stories = {split: tuple(_story(video, first[video]) for video in videos) for split, videos in dealt.items()}
    told = {split: [t for video in videos for t in _told(video, second[video])] for split, videos in dealt.items()}
    if both_directions:
        for video in dealt["train"]:
            stories["train"] += (_story(video + SWAPPED, second[video]),)
            told["train"] += _told(video + SWAPPED, first[video])
    queries = {}
    for split, videos in stories.items():
        queries[split] = as_annotations(told[split], {story.video: story.seconds for story in videos})
        silent = {story.video for story in videos} - {each.video for each in told[split]}
        if silent:  # no query names it, so no split would read it
            stories[split] = tuple(story for story in videos if story.video not in silent)
    return Source("activitynet", stories, queries, tuple(notes))


def read_captions_file(path: Path, notes: list[str]) -> Captions:
    """``{video: {duration, timestamps, sentences}}``; a caption without words keeps its number but is left out."""
    try:
        table = json.loads("\n".join(line for _, line in text_lines(path)))
    except (ValueError, RecursionError) as problem:
        raise DataError(
            f"{path} is not JSON ({problem}); it is cut short or something else: fetch it again."
        ) from problem
    if not isinstance(table, dict) or not table:
        raise DataError(f"{path} should hold one JSON object with an entry per video.")
    found: Captions = {}
    empty = 0
    for video, entry in table.items():
        where = f"{path}, '{video[:40]}'"
        seconds, pairs = _entry(entry, where)
        captions = [
            Label(plain(text), *within(start, end, seconds)) if plain(text) else None for text, start, end in pairs
        ]
        empty += captions.count(None)
        found[require_name(video, where)] = seconds, captions
    if empty:
        notes.append(f"{path.name}: {empty} captions without words were left out")
    return found


def _entry(entry: Any, where: str) -> tuple[float, list[tuple[str, float, float]]]:
    """Length, and (sentence, start, end) of each caption, if all is as it should be."""
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


def _story(video: str, told: tuple[float, list[Label | None]]) -> Story:
    seconds, captions = told
    return Story(video, seconds, tuple(label for label in captions if label is not None))


def _told(video: str, told: tuple[float, list[Label | None]]) -> list[Told]:
    return [
        Told(video, number, label.text, label.start, label.end)
        for number, label in enumerate(told[1])
        if label is not None
    ]
