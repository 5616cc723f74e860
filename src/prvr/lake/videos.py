"""The table of videos: every change of it, with checksums, and the lines in it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prvr.lake.rows import (
    HEAD,
    LINES_SEAL,
    WrittenVideo,
    has_broken_lines,
    head_row,
    is_broken,
    sealed,
    video_schema,
)
from prvr.lake.tables import DamagedTable, LakeError, Table, explained, until_committed
from prvr.library import DamagedVectors

if TYPE_CHECKING:
    from lance import LanceDataset

REINDEXED = "{} was reindexed with another encoder meanwhile: run the command again"


@dataclass(frozen=True)
class VideoChange:
    """A change of the table of videos."""

    rows: list[dict[str, Any]]  # new or changed
    next_number: int  # that is free afterwards
    accepted: list[WrittenVideo] = field(default_factory=list)
    unused: list[int] = field(default_factory=list)  # parts that no video names any more
    moved: str | None = None  # the folder with tables that replace these


def change_videos(videos: Table, address: str, make: Callable[[LanceDataset, int], VideoChange]) -> VideoChange:
    """Change rows of ``videos``; ``make`` gets the newest version of the table and the next free number."""
    import pyarrow as pa

    def attempt() -> VideoChange:
        table = videos.require()
        with explained(address):
            head = _read_head(table, address)
            if head["problem"] is not None:
                raise LakeError(REINDEXED.format(address))
            made = make(table, head["size"])
            if made.rows or made.moved is not None or made.next_number != head["size"]:
                first = head_row(made.next_number) | {"problem": made.moved}
                rows = sealed(pa.Table.from_pylist([first, *made.rows], schema=video_schema()))
                rows = rows.select(table.schema.names)  # without the checksums in an older lake
                merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.conflict_retries(0).execute(rows)
        return made

    return until_committed(attempt)


def _read_head(table: LanceDataset, address: str) -> dict[str, Any]:
    """The row that knows the next free number. If it were wrong, videos would replace others."""
    rows: list[dict[str, Any]] = table.to_table(filter=f"id = {HEAD}").to_pylist()
    if len(rows) != 1 or is_broken(rows[0]):
        raise DamagedTable(f"{address}: the table of videos is damaged: restore it from a copy")
    return rows[0]


def rows_with_lines(
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
