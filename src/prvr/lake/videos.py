"""The table of videos: every change of it, with checksums.

A change reads the table, and then replaces its head row together with the rows that change. Of two changes that read
the same version Lance accepts one; the other reads again. So numbers and paths stay unique, however many commands run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prvr.lake.reading import quoted
from prvr.lake.rows import (
    HEAD,
    WrittenVideo,
    head_row,
    is_broken,
    is_damaged,
    sealed,
    video_row,
    video_schema,
)
from prvr.lake.tables import DamagedTable, LakeError, Table, explained, until_committed

if TYPE_CHECKING:
    from lance import LanceDataset

REINDEXED = "{} was reindexed with another encoder meanwhile: run the command again"
RowEdit = Callable[[dict[str, Any]], dict[str, Any]]  # a row -> its new values, by column


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


def accept_written(table: LanceDataset, number: int, *, latest: Mapping[str, WrittenVideo]) -> VideoChange:
    """The change that makes written videos, by path, part of the library. See ``LakeStore.commit_written``."""
    known = {row["path"]: row for row in rows_in(table, "path", latest)}
    changes, accepted, unused = [], [], []
    for path, each in latest.items():
        row = known.get(path)
        if row is not None and _is_same(row, each):
            unused += [each.part] if row["part"] != each.part else []  # else: this commit, done before
            tags = sorted({*row["tags"], *each.video.tags})
            changes += [row | {"tags": tags}] if tags != row["tags"] else []
            continue
        if row is None:
            number += 1
        elif row["part"] != each.part:
            unused.append(row["part"])
        changes.append(video_row(each, number - 1 if row is None else row["id"], row["tags"] if row else ()))
        accepted.append(each)
    return VideoChange(changes, number, accepted, unused)


def _is_same(row: Mapping[str, Any], written: WrittenVideo) -> bool:
    """Whether a row describes the same file with the same content and outcome, and is as it was written."""
    names = ("size", "mtime", "digest", "subtitles", "state")
    same = all(row[name] == getattr(written.video, name) for name in names)
    return same and row["state"] == "ok" and not is_damaged(row)


def edit_rows(
    table: LanceDataset,
    number: int,
    *,
    address: str,
    condition: str,
    edit: RowEdit,
    unless: str,
    skip_damaged: bool,
) -> VideoChange:
    """The change of all rows for which a condition holds; of none if there are rows for which ``unless`` holds."""
    found = [] if table.count_rows(unless) else table.to_table(filter=condition).to_pylist()
    good = [row for row in found if not is_damaged(row)]
    if len(good) < len(found) and not skip_damaged:
        raise DamagedTable(f"{address}: the rows of some of these videos are damaged: run `prvr library repair` first")
    return VideoChange([row | edit(row) for row in good], number)


def rows_in(table: LanceDataset, column: str, values: Collection[str | int]) -> list[dict[str, Any]]:
    """Rows whose column has one of these values."""
    listed = ", ".join(quoted(each) if isinstance(each, str) else str(each) for each in values)
    rows: list[dict[str, Any]] = table.to_table(filter=f"{column} IN ({listed})").to_pylist() if values else []
    return rows
