"""An evaluation on disk: every query's rank under every scoring, and how it was measured.

A record is a folder of two files. ``ranks.csv`` has one line per query and one column per scoring, so a spreadsheet
opens it and two seeds can be joined; ``summary.json`` has the recalls and the protocol they were measured under.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.errors import UserError
from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.scoring import Recall, recalls, require_ranks

RANKS_FILE = "ranks.csv"
SUMMARY_FILE = "summary.json"
FORMAT = "prvr-evaluation/1"
KEYS = ("query_id", "video_id")


class RecordError(UserError):
    """A record that cannot be read back. The message says what was found and what to do."""


@dataclass(frozen=True)
class EvaluationProtocol:
    """What a reader must know before comparing two numbers."""

    dataset: str
    split: str  # the split the ranks are of
    selection: str  # how the weights were chosen, in words: "best epoch on validation", "mean of the last 3 epochs"
    seeds: tuple[int, ...] = ()
    notes: str = ""
    trained_on: str = ""  # the dataset of the training, where ``dataset`` is another one (cross-dataset)


@dataclass(frozen=True)
class EvaluationRecord:
    """Ranks of the same queries under one or several scorings."""

    query_ids: tuple[str, ...]
    video_ids: tuple[str, ...]  # the right video of each query
    ranks: Mapping[str, Tensor]  # by scoring ("base", "trace", …), each (Q,) int64
    protocol: EvaluationProtocol

    def __post_init__(self) -> None:
        if len(self.video_ids) != len(self.query_ids):
            raise ValueError(f"{len(self.query_ids)} query ids with {len(self.video_ids)} video ids; expected one each")
        if len(set(self.query_ids)) != len(self.query_ids):
            raise ValueError("query ids repeat; expected every query once, or records could not be joined by query")
        if not self.ranks or set(self.ranks) & set(KEYS):
            raise ValueError(f"scorings are named {list(self.ranks)}; expected at least one name, none of {KEYS}")
        for name, column in self.ranks.items():
            require_ranks(column)
            if len(column) != len(self.query_ids):
                raise ValueError(f"scoring '{name}' has {len(column)} ranks for {len(self.query_ids)} queries")

    def recalls(self) -> dict[str, Recall]:
        """Recalls of each scoring, by name."""
        return {name: recalls(column) for name, column in self.ranks.items()}


def save_record(record: EvaluationRecord, folder: str | Path) -> Path:
    """Write a record into a folder, creating it if needed; each file appears when it is complete."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: column.tolist() for name, column in record.ranks.items()}
    summary = {
        "format": FORMAT,
        "queries": len(record.query_ids),
        "protocol": asdict(record.protocol),
        "recalls": {name: recall.as_dict() for name, recall in record.recalls().items()},
    }
    names = dict(zip(KEYS, (record.query_ids, record.video_ids), strict=True))
    write_columns(folder / RANKS_FILE, {**names, **columns})
    write_whole(folder / SUMMARY_FILE, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return folder


def write_columns(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    """Write named columns as a CSV file."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_whole(path, out.getvalue())


def load_record(folder: str | Path) -> EvaluationRecord:
    """Read a record back and check that its two files agree; ``RecordError`` if they do not."""
    folder = Path(folder)
    try:
        return _load(folder)
    except RecordError:
        raise
    except (
        OSError,
        csv.Error,
        NotAnObject,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        RecursionError,
    ) as problem:
        raise RecordError(f"{folder} does not hold a readable evaluation ({problem}): evaluate again") from problem


def _load(folder: Path) -> EvaluationRecord:
    summary = _read_summary(folder / SUMMARY_FILE)
    header, lines = _read_table(folder / RANKS_FILE)
    record = EvaluationRecord(
        query_ids=tuple(line[0] for line in lines),
        video_ids=tuple(line[1] for line in lines),
        ranks={
            name: torch.tensor([int(line[column]) for line in lines], dtype=torch.int64)
            for column, name in enumerate(header[2:], start=2)
        },
        protocol=EvaluationProtocol(**{**summary["protocol"], "seeds": tuple(summary["protocol"]["seeds"])}),
    )
    if {name: recall.as_dict() for name, recall in record.recalls().items()} != summary["recalls"]:
        raise RecordError(
            f"the recalls in {folder / SUMMARY_FILE} are not those of {folder / RANKS_FILE}; "
            "expected both from one run: evaluate again into this folder"
        )
    return record


def _read_summary(path: Path) -> dict[str, Any]:
    summary = read_json_object(path)
    if summary.get("format") != FORMAT:
        raise RecordError(
            f"{path} has format {summary.get('format')!r}, expected {FORMAT!r}; evaluate again to renew it"
        )
    return summary


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file)) or [[]]
    if tuple(header[:2]) != KEYS:
        raise RecordError(
            f"{path} begins with columns {header[:2]}, expected {list(KEYS)}; is it an evaluation's file?"
        )
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header) or not all(cell.isdecimal() for cell in line[2:]):
            raise RecordError(
                f"{path}, line {number}: found {line}, expected two ids and {len(header) - 2} whole ranks"
            )
    return header, lines
