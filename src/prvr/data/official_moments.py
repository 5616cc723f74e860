"""Moments from the annotation files that datasets publish, matched to the captions of a collection.

| dataset | file | one line or entry |
|---|---|---|
| TVR | ``tvr_{train,val}_release.jsonl`` | vid_name, duration, ts, desc, type |
| ActivityNet Captions | ``train.json``, ``val_1.json`` | by video: duration, timestamps, sentences |
| Charades-STA | ``charades_sta_*.txt`` with ``Charades_v1_*.csv`` | VIDEO start end##sentence; id, length |

A caption ``VIDEO#enc#K`` is the K-th sentence of its video in such a file, in the file's order. Where the words there
differ, the sentence of the same video with the same words is taken.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prvr.data.captions import Caption, Moment, is_time
from prvr.data.errors import DataError
from prvr.data.text_files import text_lines


class OfficialMoment(NamedTuple):
    """A sentence of an annotation file, and where in its video it happens."""

    sentence: str
    moment: Moment
    cut: bool = False  # the file has it end after its video; here it ends with it


def read_official_moments(paths: Sequence[Path]) -> list[OfficialMoment]:
    """The sentences of annotation files, in order; folders are searched for files that look like such.

    Raises:
        DataError: a file cannot be read, or nothing was found. JSON of another form is an error only in a file that is
            named itself: archives hold lists of ids and the like beside the annotations.
    """
    named = {path for path in paths if not path.is_dir()}
    files = [file for path in paths for file in ([path] if path in named else _inside(path))]
    lengths = {video: length for file in files if _kind(file) == "csv" for video, length in _lengths(file)}
    found: list[OfficialMoment] = []
    for file in files:
        if _kind(file) == "jsonl":
            found += _tvr(file, file in named)
        elif _kind(file) == "json":
            found += _activitynet(file, file in named)
        elif _kind(file) == "txt":
            found += _charades(file, lengths)
    if not found:
        raise DataError(
            f"no sentences with moments in {', '.join(map(str, paths))}; expected published annotations "
            "(TVR: tvr_*_release.jsonl; ActivityNet Captions: train.json, val_1.json; Charades-STA: charades_sta_*.txt "
            "with Charades_v1_*.csv)."
        )
    return found


def match_moments(captions: Iterable[Caption], official: Sequence[OfficialMoment]) -> dict[str, Moment]:
    """The moment of each caption that an annotation file has, by query id."""
    of_video: dict[str, list[OfficialMoment]] = {}
    for entry in official:
        of_video.setdefault(entry.moment.video, []).append(entry)
    found = {}
    for caption in captions:
        entries, number = of_video.get(caption.video, []), caption.id.rpartition("#")[2]
        place = int(number) if number.isdecimal() and len(number) < 9 else -1
        words = _words(caption.sentence)
        ordered = [*entries[place : place + 1], *entries] if place >= 0 else entries
        same = next((entry.moment for entry in ordered if _words(entry.sentence) == words), None)
        if same is not None:
            found[caption.id] = same
    return found


def _words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence.casefold())


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and _kind(path))


def _kind(path: Path) -> str:
    """How a file is read: jsonl, json, txt or csv; an empty word for other files."""
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[2] if name.endswith((".jsonl", ".json", ".txt", ".csv")) else ""


def _tvr(path: Path, named: bool) -> Iterator[OfficialMoment]:
    for number, line in text_lines(path):
        row = _json(path, number, line, named)
        known = row.get("ts") is not None  # a test split keeps its moments secret
        if known and (named or {"vid_name", "desc"} <= row.keys()):
            kind = row.get("type", "")
            yield _entry(f"{path}:{number}", row.get("vid_name"), row.get("desc"), row.get("duration"), row["ts"], kind)


def _activitynet(path: Path, named: bool) -> Iterator[OfficialMoment]:
    for video, about in _json(path, 1, "\n".join(line for _, line in text_lines(path)), named).items():
        if not isinstance(about, dict) or not all(
            isinstance(about.get(key), list) for key in ("timestamps", "sentences")
        ):
            continue  # TVR's table of durations, say
        if not named and "duration" not in about:
            continue
        for sentence, window in zip(about["sentences"], about["timestamps"], strict=False):
            yield _entry(f"{path}, {video}", video, sentence, about.get("duration"), window)


def _charades(path: Path, lengths: dict[str, float]) -> Iterator[OfficialMoment]:
    for number, line in text_lines(path):
        place, mark, sentence = line.partition("##")
        parts = place.split()
        if not mark or len(parts) != 3:
            return  # another text file, such as a list of classes
        if parts[0] not in lengths:
            raise DataError(f"{path}:{number}: how long is {parts[0]}? Give Charades_v1_train.csv and _test.csv too.")
        yield _entry(f"{path}:{number}", parts[0], sentence, lengths[parts[0]], [*map(_number, parts[1:])])


def _lengths(path: Path) -> Iterator[tuple[str, float]]:
    for row in csv.DictReader(line for _, line in text_lines(path)):
        length = _number(row.get("length") or "")
        if row.get("id") and length:
            yield str(row["id"]), length


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _json(path: Path, number: int, text: str, named: bool) -> dict[str, Any]:
    if not text:
        raise DataError(f"{path} is empty; expected a JSON object.")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{path}:{number}: not JSON ({problem}).") from problem
    if not isinstance(found, dict):
        if not named:
            return {}
        raise DataError(f"{path}:{number}: expected a JSON object, found {text[:60]}.")
    return found


def _entry(where: str, video: Any, sentence: Any, duration: Any, window: Any, kind: Any = "") -> OfficialMoment:
    right = isinstance(video, str) and isinstance(sentence, str) and isinstance(kind, str) and is_time(duration)
    if not right or not isinstance(window, list) or len(window) != 2 or not all(map(is_time, window)):
        raise DataError(f"{where}: expected a video, a sentence, a duration, start and end, found {window!r:.60}.")
    moment = Moment(video, float(window[0]), float(window[1]), float(duration), kind=kind)
    return OfficialMoment(sentence, moment.within_video, cut=moment.within_video != moment)
