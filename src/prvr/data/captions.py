"""Readers of the text files: captions, lists of all correct videos, and moments.

Each reader takes one file and either returns all of it or raises a ``DataError`` with the line to look at.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from prvr.data.errors import DataError
from prvr.data.text_files import text_lines

Window: TypeAlias = tuple[float, float]  # start and end, in seconds

_LONGEST_TIME = 1e12  # seconds; JSON can hold integers that are too large for a float


@dataclass(frozen=True)
class Caption:
    """One query: ``id`` is ``VIDEO#enc#K``, and ``video`` the part before the first ``#``."""

    id: str
    video: str
    sentence: str

    @property
    def words(self) -> str:
        """The sentence in small letters, without punctuation.

        >>> Caption("a#0", "a", "A person opens  the door.").words
        'a person opens the door'
        """
        kept = (c if unicodedata.category(c)[0] in "LMN" else " " for c in self.sentence.casefold())
        return " ".join("".join(kept).split())


@dataclass(frozen=True)
class Moment:
    """Where in its video a query happens, in seconds: one window, or several (QVHighlights)."""

    video: str
    start: float  # of the first window
    end: float
    duration: float  # of the video
    more: tuple[Window, ...] = ()  # start and end of further windows
    kind: str = ""  # what the query is about, where a dataset says it: TVR's v (video), t (subtitle), vt (both)

    @property
    def windows(self) -> tuple[Window, ...]:
        """Start and end of every window; at least one."""
        return ((self.start, self.end), *self.more)

    @property
    def within_video(self) -> Moment:
        """The moment with windows that end with the video at the latest; as it is where no duration is known.

        >>> Moment("a", 20, 40, 30).within_video.windows
        ((20, 30),)
        """
        if self.duration <= 0:
            return self
        first, *more = ((min(start, self.duration), min(end, self.duration)) for start, end in self.windows)
        return replace(self, start=first[0], end=first[1], more=tuple(more))

    @property
    def seconds(self) -> float:
        """The time that all windows cover together.

        >>> Moment("a", 0, 4, 60, more=((2, 6), (10, 11))).seconds
        7.0
        """
        total, reached = 0.0, -math.inf
        for start, end in sorted(self.windows):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total


def read_captions(path: Path) -> list[Caption]:
    """One caption per line: the id, a blank, the sentence. Blank lines are skipped."""
    captions: list[Caption] = []
    first_seen: dict[str, int] = {}
    for number, line in text_lines(path):
        parts = line.split(maxsplit=1)
        if len(parts) < 2:
            raise DataError(f"{path}:{number}: found only '{line[:80]}'; expected an id, a blank and a sentence.")
        caption_id, sentence = parts
        video = caption_id.partition("#")[0]
        if not video:
            raise DataError(
                f"{path}:{number}: the id '{caption_id}' names no video; expected an id such as VIDEO#enc#0."
            )
        _refuse_repeat(path, number, caption_id, first_seen)
        captions.append(Caption(caption_id, video, sentence))
    if not captions:
        raise DataError(f"{path} holds no captions; expected one line per caption, an id and a sentence.")
    return captions


def read_positives(path: Path, collection: str = "") -> dict[str, tuple[str, ...]]:
    """All correct videos of each query: JSON lines with ``query_id`` and ``gt_video_ids``.

    The file may be gzipped, or inside a zip archive with one such file for the collection.
    """
    positives: dict[str, tuple[str, ...]] = {}
    for number, query_id, row in _records(path, collection):
        videos = row.get("gt_video_ids")
        if not isinstance(videos, list) or not all(isinstance(video, str) for video in videos):
            raise DataError(f"{path}:{number}: 'gt_video_ids' must be a list of video ids, found {videos!r:.80}.")
        positives[query_id] = tuple(dict.fromkeys(videos))
    return positives


def read_moments(path: Path) -> dict[str, Moment]:
    """The moment of each query: JSON lines with ``query_id``, ``video``, ``start``, ``end``, ``duration``.

    Where a query has several windows, ``windows`` lists them all, ``[[start, end], …]``, the first one again.
    ``type`` may say what the query is about. Windows that end after their video are cut there.
    """
    moments: dict[str, Moment] = {}
    for number, query_id, row in _records(path):
        video = row.get("video")
        times = [row.get(name) for name in ("start", "end", "duration")]
        if not isinstance(video, str) or not all(is_time(time) for time in times):
            raise DataError(
                f"{path}:{number}: expected a 'video' id and 'start', 'end', 'duration' in seconds, "
                f"found {video!r:.40} and {times!r:.80}."
            )
        start, end, duration = (float(time) for time in times if time is not None)
        kind = row.get("type", "")
        if not isinstance(kind, str):
            raise DataError(f"{path}:{number}: 'type' must be a word, found {kind!r:.40}.")
        further = _further(path, number, row.get("windows"), start, end)
        moments[query_id] = Moment(video, start, end, duration, further, kind).within_video
    return moments


def _further(path: Path, number: int, windows: object, start: float, end: float) -> tuple[Window, ...]:
    """The windows after the first, which must be the start and end of the line."""
    if windows is None:
        return ()
    if not isinstance(windows, list) or not all(is_window(window) for window in windows):
        raise DataError(f"{path}:{number}: 'windows' must be a list of [start, end] in seconds, found {windows!r:.80}.")
    found = [(float(first), float(last)) for first, last in windows]
    if found[:1] != [(start, end)]:
        raise DataError(f"{path}:{number}: the first of 'windows' must be 'start' and 'end', {[start, end]}.")
    return tuple(found[1:])


def is_window(value: object) -> bool:
    """Whether a value read from JSON is the start and end of a stretch, in seconds."""
    return isinstance(value, list) and len(value) == 2 and all(is_time(time) for time in value)


def _records(path: Path, collection: str = "") -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The JSON objects of a .jsonl file, each with a unique ``query_id``."""
    first_seen: dict[str, int] = {}
    for number, line in text_lines(path, collection):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise DataError(f"{path}:{number}: not JSON ({problem}); expected one JSON object per line.") from problem
        query_id = row.get("query_id") if isinstance(row, dict) else None
        if not isinstance(query_id, str):
            raise DataError(f"{path}:{number}: expected a JSON object with a 'query_id', found {line[:80]}.")
        _refuse_repeat(path, number, query_id, first_seen)
        yield number, query_id, row
    if not first_seen:
        raise DataError(f"{path} is empty; expected one JSON object per line. Delete it if there is nothing to list.")


def _refuse_repeat(path: Path, number: int, name: str, first_seen: dict[str, int]) -> None:
    if name in first_seen:
        raise DataError(f"{path}:{number}: the id '{name}' is already on line {first_seen[name]}; ids must be unique.")
    first_seen[name] = number


def is_time(value: object) -> bool:
    """Whether a JSON value is a time in seconds that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _LONGEST_TIME and math.isfinite(value)
