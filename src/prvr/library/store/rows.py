"""Where the sections of a shard lie in its files, and their checksums."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.store.seals import has_seals
from prvr.scoring import PAGED

SHARDS_FOLDER = "shards"
WITNESS_FRAMES, WITNESS_FACTS = "witness.frames", "witness.facts"  # only with a model that has a witness
PAGED_ARRAYS = (*PAGED, "spans", WITNESS_FRAMES)
READ_APART = (WITNESS_FRAMES,)  # no score needs them, and they are larger than all others together
NO_CHECKSUM = -1


class SectionRow(NamedTuple):
    """Where the catalogue says that a section lies."""

    video: int
    row: int
    first_page: int
    pages: int
    tokens: int
    checksum: int  # of its arrays, or NO_CHECKSUM: an older version wrote it


def read_rows(db: sqlite3.Connection, shard: int) -> list[SectionRow]:
    """The sections of a shard that belong to videos, in order."""
    checksum = f"COALESCE(checksum, {NO_CHECKSUM})" if has_seals(db) else NO_CHECKSUM
    found = db.execute(
        f"SELECT video, row, first_page, pages, tokens, {checksum} FROM sections WHERE shard = ? ORDER BY row", (shard,)
    )
    return [*map(SectionRow._make, found)]


def bytes_checksum(stretches: Mapping[str, bytes | memoryview]) -> int:
    """The checksum of the bytes of one section, by the names of its arrays."""
    found = 0
    for name in sorted(stretches):
        found = zlib.crc32(stretches[name], zlib.crc32(name.encode(), found))
    return found


def pages_of_rows(shard: int, count: int, total: int, rows: Sequence[SectionRow]) -> NDArray[np.int32]:
    """(rows,): how many pages each row of a shard has, as the catalogue says. Dead rows fill the gaps.

    Args:
        shard: its number, for the message.
        count: its rows.
        total: its pages.
        rows: those that belong to videos.

    Raises:
        LibraryError: the rows do not lie one after the other, or not in the shard.
    """
    starts = np.zeros(count + 1, np.int64)
    _, numbers, first, pages, *_ = np.array(rows, np.int64).reshape(-1, len(SectionRow._fields)).T
    if len(rows) and not (numbers.min() >= 0 and numbers.max() < count):
        raise LibraryError(f"the catalogue says wrongly where vectors lie in shard {shard}")
    starts[numbers + 1], starts[numbers], starts[-1] = first + pages, first, total
    starts = np.maximum.accumulate(starts)
    if starts[0] != 0 or (starts[numbers] != first).any() or (starts[numbers + 1] != first + pages).any():
        raise LibraryError(f"the catalogue says wrongly where vectors lie in shard {shard}")
    return np.diff(starts).astype(np.int32)


@contextmanager
def reading_shard(place: Path, items: Mapping[str, int]) -> Iterator[Callable[[SectionRow], dict[str, bytes]]]:
    """Read sections from the files of a shard, without mapping them.

    Args:
        place: the folder of the shard.
        items: by array, the bytes of a row or page.

    Yields:
        A function that returns the bytes of a section by the names of its arrays; too few where a file is cut.

    Raises:
        OSError: a file is gone.
    """
    with ExitStack() as stack:
        files = {name: stack.enter_context((place / f"{name}.bin").open("rb", 0)) for name in items}

        def read(row: SectionRow) -> dict[str, bytes]:
            found = {}
            for name, item in items.items():
                first, count = (row.first_page, row.pages) if name in PAGED_ARRAYS else (row.row, 1)
                files[name].seek(first * item)
                found[name] = files[name].read(count * item)
            return found

        yield read
