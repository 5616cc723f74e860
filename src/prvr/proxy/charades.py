"""Charades-Sym: frames from timed action labels, scene and objects; queries from Charades-STA.

Neither ``script`` nor ``descriptions`` is read: the queries were written from them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

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
    numbered,
    plain,
    require_name,
    within,
)

_ARCHIVE = "it is in the annotation archive Charades_v1 on the Charades dataset's page (Allen Institute for AI)"
_SENTENCES = "the authors of Charades-STA publish it with their method TALL (temporal activity localization)"
_COLUMNS = ("id", "scene", "objects", "actions", "length")
_VALIDATION_SHARE = 1 / 16  # of the official training videos: there is no official validation split


def read_charades(folder: str | Path) -> Source:
    """Read the five annotation files; the official test split stays as it is."""
    folder, notes = Path(folder), list[str]()
    names = read_classes(find_file(folder, "Charades_v1_classes.txt", _ARCHIVE))
    told, stories = {}, {}
    for split in ("train", "test"):
        sentences = find_file(folder, f"charades_sta_{split}.txt", _SENTENCES)
        table = find_file(folder, f"Charades_v1_{split}.csv", _ARCHIVE)
        told[split] = read_sentences(sentences, notes)
        known = read_stories(table, names, notes)
        wanted = dict.fromkeys(each.video for each in told[split])
        absent = [video for video in wanted if video not in known]
        if absent:
            raise DataError(
                f"{sentences} speaks of {len(absent):,} videos that {table} does not list ('{absent[0]}' first); "
                "the two files must belong to the same split."
            )
        stories[split] = {video: known[video] for video in wanted}
    overlap = stories["train"].keys() & stories["test"].keys()
    if overlap:
        raise DataError(f"{len(overlap):,} videos are in both splits ('{min(overlap)}' first): is a file doubled?")
    held_out = max(1, round(_VALIDATION_SHARE * len(stories["train"])))
    dealt = divided(list(stories["train"]), {"train": len(stories["train"]) - held_out, "val": held_out})
    dealt["test"] = list(stories["test"])
    everything = stories["train"] | stories["test"]
    seconds = {video: story.seconds for video, story in everything.items()}
    queries = {}
    for split, videos in dealt.items():
        members, official = set(videos), "test" if split == "test" else "train"
        queries[split] = as_annotations((each for each in told[official] if each.video in members), seconds)
    chosen = {split: tuple(everything[video] for video in videos) for split, videos in dealt.items()}
    return Source("charades", chosen, queries, tuple(notes))


def read_classes(path: Path) -> dict[str, str]:
    """Action classes by their code: ``c000 Holding some clothes``."""
    classes = {}
    for number, line in text_lines(path):
        code, _, name = line.partition(" ")
        if not re.fullmatch(r"c\d+", code) or not name.strip():
            raise DataError(f"{path}:{number}: found '{line[:60]}'; expected a code such as c012 and its meaning.")
        classes[code] = plain(name)
    return classes


def read_sentences(path: Path, notes: list[str]) -> list[Told]:
    """Lines ``VIDEO start end##sentence``. Times in the wrong order are exchanged: the sentence is still true."""
    rows: list[tuple[str, float, float, str]] = []
    turned = 0
    for number, line in text_lines(path):
        where = f"{path}:{number}"
        head, mark, sentence = line.partition("##")
        parts = head.split()
        if not mark or len(parts) != 3 or not plain(sentence):
            raise DataError(f"{where}: found '{line[:60]}'; expected VIDEO start end##sentence.")
        start, end = _second(parts[1], where), _second(parts[2], where)
        turned += end < start
        rows.append((require_name(parts[0], where), start, end, plain(sentence)))
    if not rows:
        raise DataError(f"{path} holds no sentences; expected lines VIDEO start end##sentence.")
    if turned:
        notes.append(f"{path.name}: {turned} rows end before they start; their times were exchanged")
    places = numbered(video for video, *_ in rows)
    return [Told(video, place, text, start, end) for place, (video, start, end, text) in zip(places, rows, strict=True)]


def read_stories(path: Path, classes: dict[str, str], notes: list[str]) -> dict[str, Story]:
    """The table of videos: length, scene, objects and timed actions of each."""
    stories: dict[str, Story] = {}
    turned = 0
    for where, row in _rows(path):
        video, seconds = require_name(row["id"], where), _second(row["length"], where)
        if seconds <= 0:
            raise DataError(f"{where}: '{video}' is {seconds:g} s long; expected a length above 0.")
        labels = []
        for action in filter(None, (part.strip() for part in row["actions"].split(";"))):
            parts = action.split()
            if len(parts) != 3 or parts[0] not in classes:
                raise DataError(f"{where}: found the action '{action[:40]}'; expected a known class, start and end.")
            start, end = _second(parts[1], where), _second(parts[2], where)
            turned += end < start
            labels.append(Label(classes[parts[0]], *within(start, end, seconds)))
        stories[video] = Story(video, seconds, tuple(labels), _context(row["scene"], row["objects"]))
    if turned:
        notes.append(f"{path.name}: {turned} actions end before they start; their times were exchanged")
    return stories


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        yield from _table(path)
    except csv.Error as problem:
        raise DataError(f"{path} is not a table ({problem}); fetch the file again.") from problem


def _table(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.DictReader(line for _, line in text_lines(path))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(f"{path} has no column {', '.join(missing)}; expected the table of the Charades_v1 archive.")
    for row in reader:
        where = f"{path}, the row of '{(row['id'] or '')[:20]}'"
        if any(row[name] is None for name in _COLUMNS):
            raise DataError(f"{where} is cut short; fetch the file again.")
        yield where, {name: row[name] for name in _COLUMNS}


def _context(scene: str, objects: str) -> tuple[str, ...]:
    """Scene and objects as short texts; the explanation in brackets is left out.

    >>> _context("Basement (A room below the ground floor)", "box;broom/mop")
    ('Basement', 'box', 'broom/mop')
    """
    place = plain(re.sub(r"\(.*?\)", "", scene))
    things = [plain(thing) for thing in objects.split(";")]
    return tuple(filter(None, ["" if place == "Other" else place, *things]))


def _second(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: found '{text[:20]}' for a time; expected seconds.")
    return value
