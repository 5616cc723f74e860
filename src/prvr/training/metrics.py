"""A run's ``metrics.jsonl``: one JSON object per epoch, oldest first."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from prvr.files import write_whole
from prvr.training.run import RunError

_FILE = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the epochs of a run, oldest first. An incomplete last line (the run was killed) is left out."""
    path = folder / _FILE
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    epochs = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            if number == len(lines):  # no end of line: empty, or incomplete
                break
            raise RunError(f"{path}:{number}: not JSON ({problem}): restore it from a copy, or delete it") from None
        if not isinstance(record, dict):
            raise RunError(f"{path}:{number}: expected a JSON object: restore it from a copy, or delete it")
        epochs.append(record)
    return epochs


def append_metrics(folder: Path, record: dict[str, Any]) -> None:
    """Append one epoch."""
    with (folder / _FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def drop_metrics(folder: Path, from_epoch: int) -> None:
    """Remove the epochs that a resumed run will repeat, and a last line that is incomplete."""
    path = folder / _FILE
    if not path.exists():
        return
    kept = [line for line in path.read_bytes().splitlines() if _epoch_of(line) < from_epoch]
    write_whole(path, "".join(line.decode() + "\n" for line in kept))


def _epoch_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError, RecursionError):  # ValueError: also bytes that are not UTF-8
        return math.inf
