"""Checksums of what the catalogue says, so that a changed bit is found.

A *seal* is the checksum of everything that the catalogue holds about one video (its row, its sections with the
checksums of their arrays, its subtitle lines) or about one shard. Triggers note whose rows change, also if an older
version of this program changes them; the transaction that changed them seals them before it commits.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator

from prvr.library.errors import LibraryError

_CONTENT = {
    "video": (
        "SELECT id, path, size, mtime, digest, subtitles, state, problem, duration, width, height, fps, frames, tags, "
        "added FROM videos WHERE id = ?",
        "SELECT shard, row, first_page, pages, tokens, checksum FROM sections WHERE video = ? ORDER BY shard, row",
        "SELECT start, end, text FROM lines WHERE video = ? ORDER BY rowid",
    ),
    "shard": ("SELECT id, track, rows, pages, about FROM shards WHERE id = ?",),
}
_TABLES = {
    "videos": ("video", "id"),
    "sections": ("video", "video"),
    "lines": ("video", "video"),
    "shards": ("shard", "id"),
}
_TABLE_OF = "CREATE TABLE {} (kind TEXT NOT NULL, id INTEGER NOT NULL{}, PRIMARY KEY (kind, id)) WITHOUT ROWID"


def has_seals(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seals'").fetchone() is not None


def add_seals(db: sqlite3.Connection) -> None:
    """Add the tables of checksums to a catalogue. What it holds already has none."""
    db.execute(_TABLE_OF.format("seals", ", checksum INTEGER NOT NULL"))
    db.execute(_TABLE_OF.format("unsealed", ""))
    if not any(column[1] == "checksum" for column in db.execute("PRAGMA table_info(sections)")):
        db.execute("ALTER TABLE sections ADD COLUMN checksum INTEGER")  # of the arrays; NULL: of an older version
    for table, (kind, column) in _TABLES.items():
        for event, rows in (("INSERT", ("new",)), ("UPDATE", ("old", "new")), ("DELETE", ("old",))):
            notes = " ".join(_note(kind, f"{row}.{column}") for row in rows)
            db.execute(f"CREATE TRIGGER {table}_{event.lower()}_unseals AFTER {event} ON {table} BEGIN {notes} END")


def _note(kind: str, number: str) -> str:
    """A statement of a trigger. Not INSERT OR IGNORE: in triggers, the statement that fires them decides what to do."""
    known = f"SELECT 1 FROM unsealed WHERE kind = '{kind}' AND id = {number}"
    return f"INSERT INTO unsealed SELECT '{kind}', {number} WHERE NOT EXISTS ({known});"


def seal_changes(db: sqlite3.Connection) -> None:
    """Seal everything that was changed. Use it before a commit."""
    for kind, number in db.execute("SELECT kind, id FROM unsealed").fetchall():
        seal(db, kind, number)
    db.execute("DELETE FROM unsealed")


def seal(db: sqlite3.Connection, kind: str, number: int) -> None:
    """Seal a video or a shard as it is now. The seal of one that is gone is deleted."""
    db.execute("DELETE FROM seals WHERE kind = ? AND id = ?", (kind, number))
    found = content_checksum(db, kind, number)
    if found is not None:
        db.execute("INSERT INTO seals VALUES (?, ?, ?)", (kind, number, found))


def content_checksum(db: sqlite3.Connection, kind: str, number: int) -> int | None:
    """The checksum of what the catalogue says about a video or a shard; None if it does not know it."""
    first, *others = _CONTENT[kind]
    rows = db.execute(first, (number,)).fetchall()
    if not rows:
        return None
    found = 0
    for row in (*rows, *(row for query in others for row in (None, *db.execute(query, (number,))))):
        found = zlib.crc32(repr(row).encode("utf-8", "surrogatepass"), found)
    return found


def unsealed_videos(db: sqlite3.Connection) -> set[int]:
    """Numbers of the videos without checksums, which an older version of this program stored."""
    found = db.execute(
        "SELECT id FROM videos WHERE id NOT IN (SELECT id FROM seals WHERE kind = 'video') "
        "UNION SELECT id FROM videos WHERE id IN (SELECT id FROM unsealed WHERE kind = 'video') "
        "UNION SELECT video FROM sections WHERE checksum IS NULL"
    )
    return {number for (number,) in found}


def broken_among(db: sqlite3.Connection, videos: Iterable[int]) -> set[int]:
    """Those of some videos about which the catalogue does not say what was written."""
    query = (
        "SELECT checksum FROM seals WHERE kind = 'video' AND id = ? "
        "AND id NOT IN (SELECT id FROM unsealed WHERE kind = 'video')"
    )
    sealed = {video: db.execute(query, (video,)).fetchone() for video in videos} if has_seals(db) else {}
    return {video for video, seal in sealed.items() if seal and content_checksum(db, "video", video) != seal[0]}


def require_whole(db: sqlite3.Connection, videos: Iterable[int]) -> None:
    """Refuse to change damaged videos: the change would give the damage a checksum that fits."""
    if broken_among(db, videos):
        raise LibraryError("what the catalogue says of this video is damaged: run `prvr library repair` first")


def broken_seals(db: sqlite3.Connection, kind: str) -> Iterator[int]:
    """Numbers of the videos or shards about which the catalogue does not say what was written."""
    sealed = db.execute(
        "SELECT id, checksum FROM seals WHERE kind = ? AND id NOT IN (SELECT id FROM unsealed WHERE kind = ?)",
        (kind, kind),
    ).fetchall()
    for number, checksum in sealed:
        if content_checksum(db, kind, number) != checksum:
            yield number
