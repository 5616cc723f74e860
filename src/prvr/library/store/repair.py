"""Put right what can be put right without the video files: the record, the words, checksums that are missing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from prvr.library.store.arrays import Shard, read_shards
from prvr.library.store.catalogue import Catalogue, drop_video, unreadable_videos
from prvr.library.store.rows import NO_CHECKSUM, SHARDS_FOLDER, SectionRow, bytes_checksum, read_rows, reading_shard
from prvr.library.store.seals import seal, unsealed_videos
from prvr.library.store.settings import LibraryRecord, is_record_right, restore_record
from prvr.library.store.words import rebuild_words


def mend_catalogue(folder: Path, catalogue: Catalogue, record: LibraryRecord) -> list[str]:
    """Put right the library's record, and what the catalogue derives from its own rows. Returns what was done."""
    done = []
    with catalogue.writing() as db:
        if not is_record_right(db, folder):
            restore_record(db, folder, record)
            done.append("the library's settings were written again")
        db.execute("REINDEX")
        rebuild_words(db)  # before rows are deleted, which takes their words out
        for number, path in unreadable_videos(db).items():
            drop_video(db, number)
            done.append(f"{path}: its row in the catalogue was damaged and is deleted: add the file again")
        orphans = db.execute("DELETE FROM sections WHERE video NOT IN (SELECT id FROM videos)").rowcount
        if orphans:
            done.append(f"{orphans} stretches of vectors that belong to no video were deleted")
    return done


def add_checksums(folder: Path, catalogue: Catalogue, damaged: set[int]) -> int:
    """Compute the checksums of videos that an older version stored. Returns of how many.

    Args:
        damaged: videos that are not what they should be; they get none.
    """
    with catalogue.writing(visible=False) as db:
        videos = unsealed_videos(db) - damaged
        for shard in read_shards(db, []):
            _add_checksums(db, folder, shard, [row for row in read_rows(db, shard.id) if row.video in videos])
            seal(db, "shard", shard.id)
        for video in videos:
            seal(db, "video", video)
        return len(videos)


def _add_checksums(db: sqlite3.Connection, folder: Path, shard: Shard, rows: list[SectionRow]) -> None:
    items = {name: int(about["item"]) for name, about in shard.about["arrays"].items()}
    missing = [row for row in rows if row.checksum == NO_CHECKSUM]
    if missing:
        with reading_shard(folder / SHARDS_FOLDER / str(shard.id), items) as read:
            db.executemany(
                "UPDATE sections SET checksum = ? WHERE shard = ? AND row = ?",
                [(bytes_checksum(read(row)), shard.id, row.row) for row in missing],
            )
