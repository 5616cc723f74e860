"""Charades-Sym: frames from timed action labels, scene and objects; queries from Charades-STA.

Neither ``script`` nor ``descriptions`` is read: the queries were written from them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

from prvr.data import DataError, text_lines
from prvr.worlds.proxies.source import (
    Label,
    LabelScript,
    ProxySource,
    annotate_sentences,
    assign_splits,
    clamp_span,
    find_annotation_file,
    occurrence_numbers,
    one_line,
    require_video_id,
    sentence_query,
)
from prvr.worlds.script import Query, Script

_ARCHIVE = "it is in the annotation archive Charades_v1 on the Charades dataset's page (Allen Institute for AI)"
_SENTENCES = "the authors of Charades-STA publish it with their method TALL (temporal activity localization)"
_COLUMNS = ("id", "scene", "objects", "actions", "length")
_VALIDATION_SHARE = 1 / 16  # of the official training videos: there is no official validation split


def read_charades(folder: str | Path) -> ProxySource:
    """Read the five annotation files; the official test split stays as it is."""
    folder, notes = Path(folder), list[str]()
    names = read_classes(find_annotation_file(folder, "Charades_v1_classes.txt", _ARCHIVE))
    queries, scripts = {}, {}
    for split in ("train", "test"):
        queries[split], scripts[split] = _read_split(folder, split, names, notes)
    overlap = scripts["train"].keys() & scripts["test"].keys()
    if overlap:
        raise DataError(
            f"{len(overlap):,} videos are in both splits ('{min(overlap)}' first); check whether one file is a copy of "
            "the other."
        )
    held_out = max(1, round(_VALIDATION_SHARE * len(scripts["train"])))
    assigned = assign_splits(list(scripts["train"]), {"train": len(scripts["train"]) - held_out, "val": held_out})
    assigned["test"] = list(scripts["test"])
    all_scripts = scripts["train"] | scripts["test"]
    chosen, annotations = {}, {}
    for split, videos in assigned.items():
        members, official = set(videos), "test" if split == "test" else "train"
        chosen[split] = tuple(all_scripts[video] for video in videos)
        annotations[split] = annotate_sentences(
            chosen[split], (query for query in queries[official] if query.video in members)
        )
    return ProxySource("charades", chosen, annotations, tuple(notes))


def _read_split(
    folder: Path, split: str, names: dict[str, str], notes: list[str]
) -> tuple[list[Query[Label]], dict[str, LabelScript]]:
    """The sentences of an official split, and the scripts of the videos they describe."""
    sentences = find_annotation_file(folder, f"charades_sta_{split}.txt", _SENTENCES)
    table = find_annotation_file(folder, f"Charades_v1_{split}.csv", _ARCHIVE)
    queries = read_sentences(sentences, notes)
    listed = read_scripts(table, names, notes)
    described = dict.fromkeys(query.video for query in queries)
    absent = [video for video in described if video not in listed]
    if absent:
        raise DataError(
            f"{sentences} describes {len(absent):,} videos that {table} does not list ('{absent[0]}' first); "
            "the two files must belong to the same split."
        )
    return queries, {video: listed[video] for video in described}


def read_classes(path: Path) -> dict[str, str]:
    """Action classes by their code: ``c000 Holding some clothes``."""
    classes = {}
    for number, line in text_lines(path):
        code, _, name = line.partition(" ")
        if not re.fullmatch(r"c\d+", code) or not name.strip():
            raise DataError(f"{path}:{number}: found '{line[:60]}'; expected a code such as c012 and its meaning.")
        classes[code] = one_line(name)
    return classes


def read_sentences(path: Path, notes: list[str]) -> list[Query[Label]]:
    """Lines ``VIDEO start end##sentence``. Times in the wrong order are exchanged."""
    rows: list[tuple[str, float, float, str]] = []
    reversed_times = 0
    for number, line in text_lines(path):
        where = f"{path}:{number}"
        head, mark, sentence = line.partition("##")
        parts = head.split()
        if not mark or len(parts) != 3 or not one_line(sentence):
            raise DataError(f"{where}: found '{line[:60]}'; expected VIDEO start end##sentence.")
        start, end = _second(parts[1], where), _second(parts[2], where)
        reversed_times += end < start
        rows.append((require_video_id(parts[0], where), start, end, one_line(sentence)))
    if not rows:
        raise DataError(f"{path} holds no sentences; expected lines VIDEO start end##sentence.")
    if reversed_times:
        notes.append(f"{path.name}: {reversed_times} rows end before they start; their times were exchanged")
    numbers = occurrence_numbers(video for video, *_ in rows)
    return [
        sentence_query(video, number, start, end, text)
        for number, (video, start, end, text) in zip(numbers, rows, strict=True)
    ]


def read_scripts(path: Path, classes: dict[str, str], notes: list[str]) -> dict[str, LabelScript]:
    """The table of videos: length, scene, objects and timed actions of each."""
    scripts: dict[str, LabelScript] = {}
    reversed_times = 0
    for where, row in _rows(path):
        video, seconds = require_video_id(row["id"], where), _second(row["length"], where)
        if seconds <= 0:
            raise DataError(f"{where}: '{video}' is {seconds:g} s long; expected a length above 0.")
        labels = []
        for action in filter(None, (part.strip() for part in row["actions"].split(";"))):
            parts = action.split()
            if len(parts) != 3 or parts[0] not in classes:
                raise DataError(f"{where}: found the action '{action[:40]}'; expected a known class, start and end.")
            start, end = _second(parts[1], where), _second(parts[2], where)
            reversed_times += end < start
            labels.append(Label(*clamp_span(start, end, seconds), classes[parts[0]]))
        scripts[video] = Script(video, _setting(row["scene"], row["objects"]), seconds, tuple(labels))
    if reversed_times:
        notes.append(f"{path.name}: {reversed_times} actions end before they start; their times were exchanged")
    return scripts


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        yield from _table(path)
    except csv.Error as problem:
        raise DataError(f"{path} is not a table ({problem}); download the file again.") from problem


def _table(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.DictReader(line for _, line in text_lines(path))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(f"{path} has no column {', '.join(missing)}; expected the table of the Charades_v1 archive.")
    for row in reader:
        where = f"{path}, the row of '{(row['id'] or '')[:20]}'"
        if any(row[name] is None for name in _COLUMNS):
            raise DataError(f"{where} is cut short; download the file again.")
        yield where, {name: row[name] for name in _COLUMNS}


def _setting(scene: str, objects: str) -> tuple[str, ...]:
    """Scene and objects as short texts; the explanation in brackets is left out.

    >>> _setting("Basement (A room below the ground floor)", "box;broom/mop")
    ('Basement', 'box', 'broom/mop')
    """
    place = one_line(re.sub(r"\(.*?\)", "", scene))
    items = [one_line(item) for item in objects.split(";")]
    return tuple(filter(None, ["" if place == "Other" else place, *items]))


def _second(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: found '{text[:20]}' for a time; expected seconds.")
    return value
