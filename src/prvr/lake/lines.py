"""What is said in the videos of a lake: the lines in the table of videos, and the words that a search finds in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from prvr.lake.reading import LakeSnapshot
from prvr.lake.rows import LINES_SEAL, has_broken_lines
from prvr.lake.tables import explained
from prvr.library import DamagedVectors, ScratchWords
from prvr.media import TimedLine

if TYPE_CHECKING:
    from lance import LanceDataset

_MANY_ROWS = 1000  # whose lines are read one by one; for more, the whole table is read


def lake_lines(table: LanceDataset, video: int, start: float, end: float) -> list[TimedLine]:
    """The lines of a video between two times, in order."""
    found = _rows_with_lines(table, f"id = {int(video)}")
    lines = [TimedLine(**line) for line in found[0]["lines"]] if found else []
    chosen = [line for line in lines if line.start < end and line.end > start]
    return sorted(chosen, key=lambda line: line.start)


def lake_words(
    scratch: ScratchWords, snapshot: LakeSnapshot, address: str
) -> AbstractContextManager[sqlite3.Connection]:
    """A database with the words of a snapshot, in which only what has changed since the last one is written anew."""
    rows, table = snapshot.videos.rows, snapshot.opened[0]

    def videos() -> dict[int, tuple[str, tuple[str, ...], int]]:
        columns = (rows[name].to_pylist() for name in ("id", "path", "tags", "part"))
        return {number: (path, tuple(tags), part) for number, path, tags, part in zip(*columns, strict=True)}

    def lines(numbers: list[int]) -> list[tuple[int, list[TimedLine]]]:
        condition = "state = 'ok'" if len(numbers) > _MANY_ROWS else f"id IN ({', '.join(map(str, numbers))})"
        with explained(address):
            found = _rows_with_lines(table, condition, snapshot.damaged)
        wanted, found = set(numbers), sorted(found, key=lambda row: row["id"])
        return [(row["id"], [TimedLine(**line) for line in row["lines"]]) for row in found if row["id"] in wanted]

    return scratch.holding(snapshot.generation, videos, lines)


def _rows_with_lines(
    table: LanceDataset, condition: str, damaged: Collection[int] | None = None
) -> list[dict[str, Any]]:
    """Rows with their lines; without those that are not what was written.

    Args:
        damaged: videos that are known to be damaged. With it, the lines of others must not be.
    """
    columns = ["id", "lines", *({LINES_SEAL} & {*table.schema.names})]
    rows = table.to_table(columns=columns, filter=condition).to_pylist()
    broken = {row["id"] for row in rows if has_broken_lines(row)}
    if damaged is not None and broken - {*damaged}:
        raise DamagedVectors(broken)
    return [row | ({"lines": []} if row["id"] in broken else {}) for row in rows]
