"""What is done after changes: sections of no video are deleted, small files merged, and old versions deleted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import numpy as np

from prvr.lake.index import update_index
from prvr.lake.reading import TRACKS
from prvr.lake.rows import HEAD
from prvr.lake.sections import scan_sections
from prvr.lake.settings import VIDEOS
from prvr.lake.tables import CommitConflict, DamagedTable, LakeError, Table, explained, table_bytes

_MANY_FILES = 64  # of a table; more are merged
_MANY_DELETED = 0.1  # share of the rows of a file; above, it is written again without them
_FILE_BYTES, _BATCH_BYTES = 1 << 29, 1 << 26  # of merged files, and of what is read at a time to merge them
KEPT = timedelta(days=1)  # how long old versions stay, for readers that still use them
_log = logging.getLogger("prvr.lake")


def clean_table(table: Table) -> None:
    """Merge small files, add new rows to the index, and delete versions that are older than a day."""
    try:
        _clean(table)
    except CommitConflict:  # another process cleans
        pass
    except LakeError as problem:  # nothing depends on it; the next command tries again
        _log.warning("%s", problem)


def drop_sections(tables: Mapping[str, Table], parts: Sequence[int]) -> None:
    """Delete the sections of parts that no video names any more."""
    condition = f"part IN ({', '.join(map(str, parts))})"
    for track in TRACKS if parts else ():
        try:
            tables[track].delete(condition)
        except DamagedTable as problem:
            if _drop_unreadable(tables[VIDEOS], tables[track]):
                tables[track].delete(condition)
            else:  # what is left there is of no video, so that no reader sees it
                _log.warning("%s", problem)


def _drop_unreadable(videos: Table, track: Table) -> bool:
    """Delete files of sections that cannot be read, if all that remains is complete without them."""
    table, known, count = track.require(), videos.require(), f"{track.name}_sections"
    with explained(videos.lake):
        named = known.to_table(columns=["part", count], filter=f"id != {HEAD}")
    rows, unreadable = scan_sections(table, ["part"])
    found = int(np.isin(rows["part"], named["part"].to_pylist()).sum())
    complete = found == sum(named[count].to_pylist())
    if complete and unreadable:
        track.drop(unreadable)
    return complete and bool(unreadable)


def forget_replaced(address: str, place: str) -> None:
    """Delete the vectors of tables that were replaced, once no reader can still use them.

    ``place``: of the tables that count.
    """
    while place != address:
        place = place.rpartition("/")[0]
        for track in TRACKS:
            with suppress(LakeError), explained(address):
                table = Table(place, track).open()
                if table is not None:
                    table.cleanup_old_versions(KEPT)


def _clean(named: Table) -> None:
    table = named.open()
    if table is None:
        return
    with explained(named.lake):
        fragments = table.get_fragments()
        deleted = any(each.num_deletions > _MANY_DELETED * each.physical_rows for each in fragments)
        if deleted or len(fragments) > _MANY_FILES:
            row = max(1, table_bytes(table) // max(1, table.count_rows()))
            target = 1 << (_FILE_BYTES // row).bit_length()  # a power of two: the same from one call to the next
            table.optimize.compact_files(target_rows_per_fragment=target, batch_size=_BATCH_BYTES // row + 1)
        update_index(table)
        table.cleanup_old_versions(KEPT)
