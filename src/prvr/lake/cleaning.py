"""What is done after changes: small files are merged, and old versions deleted."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta

from prvr.lake.index import update_index
from prvr.lake.reading import TRACKS
from prvr.lake.tables import CommitConflict, LakeError, Table, explained, table_bytes

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
