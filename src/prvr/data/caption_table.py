"""Sentences about your own videos, in a table that people write: .csv, .tsv or .jsonl.

    video,start,end,sentence,split
    holiday.mp4,3.0,8.5,a dog jumps into the lake,train
    holiday.mp4,0:41,1:02,"somebody lights a fire, at night",train

Times are seconds, or written like 1m30s or 1:30. ``split`` (train, val or test) may be left out, for all lines. Further
columns are ignored. All wrong lines are reported together, each with its number.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from prvr.data.errors import DataError
from prvr.errors import did_you_mean
from prvr.times import NotADuration, parse_duration

SPLIT_NAMES = ("train", "val", "test")
_NEEDED = ("video", "start", "end", "sentence")
_COLUMNS = (*_NEEDED, "split")
_ALSO_CALLED = {"training": "train", "validation": "val", "valid": "val", "dev": "val"}
_LONGEST_TIME = 1e9  # seconds; JSON can hold numbers that are too large for a float
_SHOWN = 10  # problems that are listed one by one


@dataclass(frozen=True)
class CaptionRow:
    """One line of the table: a sentence about a stretch of a video."""

    line: int
    video: str
    start: float
    end: float
    sentence: str
    split: str | None = None


@dataclass
class TableProblems:
    """What is wrong with a table, line by line."""

    path: Path
    found: dict[int, str] = field(default_factory=dict)  # line: what is wrong with it, and what to do

    def add(self, line: int, problem: str) -> None:
        """Note what is wrong with a line; only the first problem of a line is kept."""
        self.found.setdefault(line, problem)

    def refuse(self) -> None:
        """Raise a ``DataError`` that lists the problems, if there are any."""
        if not self.found:
            return
        lines = [f"{self.path}:{line}: {self.found[line]}" for line in sorted(self.found)]
        if len(lines) == 1:
            raise DataError(lines[0])
        shown = "\n".join(f"  {line}" for line in lines[:_SHOWN])
        more = f"\n  … and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise DataError(f"{len(lines)} lines of {self.path} are wrong:\n{shown}{more}")


def read_caption_table(path: Path) -> list[CaptionRow]:
    """The lines of a table of captions, in their order.

    Raises:
        DataError: the file cannot be read, has no header, or lines are wrong; the message names each line.
    """
    text = _text(path)
    if path.suffix.lower() in (".csv", ".tsv"):
        records = _csv_records(path, text)
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        records = _json_records(path, text)
    else:
        raise DataError(f"{path}: captions are read from .csv, .tsv or .jsonl files, not {path.suffix or 'others'}.")
    problems, rows = TableProblems(path), []
    for line, record in records:
        try:
            rows.append(_row(line, record))
        except _WrongLine as problem:
            problems.add(line, str(problem))
    _require_splits_everywhere_or_nowhere(rows, problems)
    problems.refuse()
    if not rows:
        raise DataError(f"{path} holds no sentences; expected lines with {', '.join(_NEEDED)}.")
    return rows


class _WrongLine(Exception):
    """What is wrong with one line."""


_Record: TypeAlias = Mapping[str, Any] | _WrongLine  # cells by column, or why there are none


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror or problem}.") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise DataError(
            f"{path}:{line}: not UTF-8 ({problem.reason}); save the file as UTF-8 (in Excel: CSV UTF-8)."
        ) from None


def _csv_records(path: Path, text: str) -> Iterator[tuple[int, _Record]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(path, text), strict=True)
    header: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if header is None:
                    header = _header(path, line, cells)
                elif len(cells) == len(header):
                    yield line, dict(zip(header, cells, strict=True))
                else:
                    hint = "; put a sentence with commas in quotation marks" if len(cells) > len(header) else ""
                    yield line, _WrongLine(f"{len(cells)} cells, but the header has {len(header)}{hint}.")
            line = reader.line_num + 1
    except csv.Error as problem:
        raise DataError(f"{path}:{line}: not a line of CSV ({problem}); is a quotation mark left open?") from None
    if header is None:
        raise DataError(f"{path} is empty; expected a header ({','.join(_COLUMNS)}) and one line per sentence.")


def _delimiter(path: Path, text: str) -> str:
    """What separates cells: a tab in .tsv; else what splits the first line into most columns that we know."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = next((line for line in text.splitlines() if line.strip()), "")

    def known(mark: str) -> int:
        return len({cell.strip().strip('"').lower() for cell in first.split(mark)} & {*_COLUMNS})

    return max((",", ";", "\t"), key=known)


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    missing = [name for name in _NEEDED if name not in names]
    if len(missing) == len(_NEEDED):
        raise DataError(
            f"{path}:{line}: no header; expected {','.join(_COLUMNS)} (split may be left out) as first line."
        )
    if missing:
        raise DataError(f"{path}:{line}: the header has no column {', '.join(missing)}; found {', '.join(names)}.")
    for name in names:
        if name in _COLUMNS and names.count(name) > 1:
            raise DataError(f"{path}:{line}: the header names the column {name} twice; each may be there once.")
    _refuse_misspelt_split(f"{path}:{line}", names)
    return names


def _refuse_misspelt_split(where: str, names: list[str]) -> None:
    """A column that is nearly called split is one: ignored, the splits in it would be replaced by others."""
    if "split" in names:
        return
    for name in names:
        if name not in _COLUMNS and did_you_mean(name, ["split"]):
            raise DataError(f"{where}: unknown column {name!r}. Did you mean 'split'? Rename it, also if not.")


def _json_records(path: Path, text: str) -> Iterator[tuple[int, _Record]]:
    for line, record in enumerate(text.split("\n"), start=1):
        if not record.strip():
            continue
        try:
            value = json.loads(record, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as problem:
            yield line, _WrongLine(f"not JSON ({problem}); expected one JSON object per line.")
            continue
        if not isinstance(value, dict):
            yield line, _WrongLine(f"expected a JSON object, found {record.strip()[:60]}.")
            continue
        value = {name.strip().lower(): content for name, content in value.items()}
        missing = [name for name in _NEEDED if name not in value]
        if missing:
            yield line, _WrongLine(f"{', '.join(missing)} is missing; found {', '.join(value) or 'nothing'}.")
            continue
        _refuse_misspelt_split(f"{path}:{line}", list(value))
        yield line, value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len({*names}) < len(names):
        raise ValueError(f"a name is there twice: {next(name for name in names if names.count(name) > 1)}")
    return dict(pairs)


def _row(line: int, record: _Record) -> CaptionRow:
    if isinstance(record, _WrongLine):
        raise record
    video, sentence = (record[name] for name in ("video", "sentence"))
    if not isinstance(video, str) or not video.strip():
        raise _WrongLine("no video is named.")
    if not isinstance(sentence, str) or not sentence.split():
        raise _WrongLine("the sentence is empty.")
    if any("\ud800" <= letter <= "\udfff" for letter in video + sentence):  # it could not be written in the end
        raise _WrongLine("the text holds half a character (\\ud800 to \\udfff); write it as UTF-8.")
    start, end = _seconds("start", record["start"]), _seconds("end", record["end"])
    if end <= start:
        raise _WrongLine(f"the end ({end:g} s) must come after the start ({start:g} s).")
    return CaptionRow(line, video.strip(), start, end, " ".join(sentence.split()), _split(record.get("split")))


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 <= value <= _LONGEST_TIME:
            return float(value)
    elif isinstance(value, str):
        try:
            return parse_duration(value)
        except NotADuration:
            pass
    raise _WrongLine(f"the {name} {value!r} is not a time; write seconds (12.5) or 1:30.")


def _split(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    name = str(value).strip().lower()
    name = _ALSO_CALLED.get(name, name)
    if name not in SPLIT_NAMES:
        raise _WrongLine(f"{value!r} is not a split; expected {', '.join(SPLIT_NAMES)}.")
    return name


def _require_splits_everywhere_or_nowhere(rows: list[CaptionRow], problems: TableProblems) -> None:
    given = [row for row in rows if row.split is not None]
    if not given:
        return
    for row in rows:
        if row.split is None:
            problems.add(row.line, f"no split, but line {given[0].line} has one; give it for all lines or for none.")
