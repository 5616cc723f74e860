"""Give back the space of removed videos: copy what is left of their shards, then delete the old shards.

Nothing is deleted before the commit that stops using it is on the disk, so the disk holds all copies and all old shards
at that moment.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prvr.library.store.arrays import Appender, Section, Shard, read_shards
from prvr.library.store.rows import PAGED_ARRAYS, SHARDS_FOLDER, SectionRow, read_rows, reading_shard


def compact(db: sqlite3.Connection, folder: Path) -> list[Path]:
    """Copy the living rows of shards that have dead ones into new shards. Use it inside ``Catalogue.writing``.

    Damaged shards stay as they are while a video needs them.

    Returns:
        The folders that can be deleted once this is committed.
    """
    damaged: list[int] = []
    unused = []
    with Appender(db, folder) as appender:
        appender.last.clear()  # into new shards only: an old one may be next to be compacted
        for shard in read_shards(db, damaged):
            rows = read_rows(db, shard.id)
            if len(rows) < shard.rows and _is_complete(folder, shard, rows):
                _drop(db, shard.id)
                for row, section in _sections(folder, shard, rows):
                    appender.append(shard.track, row.video, section, row.checksum)
                unused.append(folder / SHARDS_FOLDER / str(shard.id))
    for number in damaged:
        if not read_rows(db, number):
            _drop(db, number)
            unused.append(folder / SHARDS_FOLDER / str(number))
    return unused


def _drop(db: sqlite3.Connection, shard: int) -> None:
    db.execute("DELETE FROM sections WHERE shard = ?", (shard,))
    db.execute("DELETE FROM shards WHERE id = ?", (shard,))


def _is_complete(folder: Path, shard: Shard, rows: Sequence[SectionRow]) -> bool:
    """Whether the files of a shard hold all bytes of these rows."""
    pages = max((row.first_page + row.pages for row in rows), default=0)
    last = max((row.row for row in rows), default=-1)
    return replace(shard, rows=last + 1, pages=pages).is_complete(folder)


def _sections(folder: Path, shard: Shard, rows: Sequence[SectionRow]) -> Iterator[tuple[SectionRow, Section]]:
    """Sections as they are in the files."""
    about = shard.about["arrays"]
    items = {name: int(of_array["item"]) for name, of_array in about.items()}
    if not rows:
        return
    with reading_shard(folder / SHARDS_FOLDER / str(shard.id), items) as read:
        for row in rows:
            arrays = {}
            for name, stretch in read(row).items():
                count = row.pages if name in PAGED_ARRAYS else 1
                arrays[name] = np.frombuffer(stretch, about[name]["dtype"]).reshape(count, *about[name]["shape"])
            yield row, Section(shard.about["gallery"], arrays, row.tokens)


def sweep(db: sqlite3.Connection, folder: Path) -> None:
    """Delete shard folders that the catalogue does not know. Use it inside ``Catalogue.writing``, before any change."""
    known = {str(number) for (number,) in db.execute("SELECT id FROM shards")}
    delete_shards(place for place in (folder / SHARDS_FOLDER).glob("*") if place.name not in known)


def delete_shards(places: Iterable[Path]) -> None:
    """Delete folders of shards that no commit uses any more."""
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
