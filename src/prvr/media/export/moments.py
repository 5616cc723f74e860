"""Moments to export: read from a table or from the answer of a search, and written as a table."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from prvr.errors import UserError
from prvr.media.buckets import VideoFile, video_path
from prvr.times import parse_duration

CSV_COLUMNS = ("video", "start", "end", "label")
_Value = TypeVar("_Value")
_FORMULA = ("=", "+", "-", "@")  # spreadsheets compute cells that begin so
_LONGEST_STEM = 60  # letters of a video's name in the name of a clip


class ExportError(UserError):
    """Moments that cannot be read or exported; the message says which, and what to do."""


@dataclass(frozen=True)
class ExportMoment:
    """A stretch of a video that is taken out of a library.

    >>> ExportMoment(video_path("films/Summer 1.mov"), 3, 4.5).clip_name(7)
    '07-Summer_1-3.0-4.5.mp4'
    """

    video: VideoFile
    start: float  # seconds
    end: float
    label: str = ""  # what is seen, as a person wrote it
    name: str = ""  # of the video in tables and timelines; by default its path
    fps: float | None = None  # of the video; None: it is read from the file where it is needed
    duration: float | None = None  # of the video

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end) and 0 <= self.start < self.end):
            found = f"{self.start} to {self.end}"
            raise ExportError(f"{self.shown}: a moment starts at 0 s or later and ends after its start, not {found}")

    @property
    def shown(self) -> str:
        """The video, as tables and timelines name it."""
        return self.name or str(self.video)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def with_margin(self, margin: float) -> ExportMoment:
        """The moment with some seconds more on both sides, as far as the video goes."""
        end = self.end + margin
        if self.duration is not None:
            end = max(self.end, min(end, self.duration))
        return replace(self, start=max(0.0, self.start - margin), end=end)

    def clip_name(self, number: int) -> str:
        """The name of a file with this moment."""
        stem = re.sub(r"[^\w.-]+", "_", self.video.stem)[:_LONGEST_STEM]
        return f"{number:02d}-{stem}-{self.start:.1f}-{self.end:.1f}.mp4"


Failures = list[tuple[ExportMoment, str]]  # moments that are not exported, with reasons


def most_seconds(shares: Iterable[tuple[_Value, float]]) -> _Value:
    """The value that most seconds have, from values and seconds.

    >>> most_seconds([(25.0, 3.0), (30.0, 4.0), (25.0, 2.0)])
    25.0
    """
    seconds: dict[_Value, float] = {}
    for value, share in shares:
        seconds[value] = seconds.get(value, 0.0) + share
    return max(seconds, key=lambda value: seconds[value])


def moments_csv(moments: Iterable[ExportMoment]) -> str:
    """A table of moments, which ``parse_moments`` reads again. No cell is a formula for spreadsheets.

    >>> moments_csv([ExportMoment(video_path("a.mp4"), 0, 1, label="=1+1")]).splitlines()[1]
    "a.mp4,0.000,1.000,'=1+1"
    """
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(CSV_COLUMNS)
    for moment in moments:
        cells = (moment.shown, f"{moment.start:.3f}", f"{moment.end:.3f}", moment.label)
        table.writerow([f"'{cell}" if cell.startswith((*_FORMULA, "'")) else cell for cell in cells])
    return text.getvalue()


def parse_moments(text: str) -> list[ExportMoment]:
    """Moments from a CSV table with the columns video, start, end and (if wanted) label, or from JSON.

    The JSON is what ``prvr search --json`` prints, or a list of objects with these names. Times are seconds, or
    1:02:03.5.

    Raises:
        ExportError: the text is neither; the message names the line.

    >>> parse_moments("video,start,end\\nfilms/a.mp4,1:02.5,64")[0].start
    62.5
    """
    text = text.lstrip("\ufeff \t\r\n")
    if not text:
        raise ExportError("no moments were given: the text is empty")
    return _from_json(text) if text[0] in "{[" else _from_csv(text)


def _from_csv(text: str) -> list[ExportMoment]:
    table = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        columns = [(name or "").strip().lower() for name in table.fieldnames or ()]
    except csv.Error as problem:
        raise ExportError(f"line 1: {problem}") from None
    missing = [name for name in CSV_COLUMNS[:3] if name not in columns]
    if missing:
        raise ExportError(
            f"line 1: a table of moments has the columns video,start,end,label; there is no {', '.join(missing)}"
        )
    table.fieldnames = columns
    moments = []
    try:
        for row in table:
            if any(row.get(name) for name in columns):
                moments.append(
                    _moment({name: _as_written(cell) for name, cell in row.items()}, f"line {table.line_num}")
                )
    except csv.Error as problem:
        raise ExportError(f"line {table.line_num}: {problem}") from None
    return moments


def _as_written(cell: Any) -> Any:
    """A cell as it was before ``moments_csv`` wrote it."""
    is_quoted = isinstance(cell, str) and cell.startswith(tuple(f"'{first}" for first in (*_FORMULA, "'")))
    return cell[1:] if is_quoted else cell


def _from_json(text: str) -> list[ExportMoment]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ExportError(f"the moments are not JSON that can be read: {problem}") from None
    query = value.get("query") if isinstance(value, dict) else None
    rows = value.get("hits", value.get("moments")) if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ExportError("the JSON holds no moments: give what `prvr search --json` prints, or a list of objects")
    return [
        _moment({"label": query, **row, "video": row.get("path", row.get("video"))}, f"moment {number}")
        for number, row in enumerate(rows, 1)
    ]


def _moment(row: dict[str, Any], place: str) -> ExportMoment:
    video = row.get("video")
    if not isinstance(video, str) or not video.strip():
        raise ExportError(f"{place}: no video is named")
    start, end = (_seconds(row.get(name), f"{place}: {name}") for name in ("start", "end"))
    label = row.get("label")
    try:
        return ExportMoment(video_path(video.strip()), start, end, label if isinstance(label, str) else "")
    except UserError as problem:  # also addresses that lead nowhere
        raise ExportError(f"{place}: {problem}") from None


def _seconds(value: Any, place: str) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return parse_duration(f"{value:f}" if isinstance(value, float) else str(value if value is not None else ""))
    except ValueError:
        shown = "nothing" if value in (None, "") else repr(value)
        raise ExportError(f"{place} should be a time, as in 62.5 or 1:02.5, not {shown}") from None
