"""The catalogue: which videos a library holds and where their arrays are. One SQLite file, with transactions.

A video is in the library exactly when its row is committed. Every change of the library or its array files happens
inside ``writing()``. Only one process at a time can be inside; the lock of a killed process is released. Readers
see the state before or after a change, never in between, and wait for nobody (``database.py``).
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prvr.library.errors import LibraryError
from prvr.library.store.database import open_to_read, open_to_write
from prvr.library.store.seals import add_seals, has_seals, seal_changes
from prvr.library.store.words import add_words, has_words
from prvr.media import TimedLine, VideoFile, video_path

CATALOGUE_FILE = "catalogue.sqlite"
_WAIT_SECONDS = 120.0  # for another process's commit
_UPGRADE_SECONDS = 1.0  # the same for a search that would only make later ones faster
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state (generation INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS videos (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    digest TEXT NOT NULL, subtitles TEXT NOT NULL, state TEXT NOT NULL, problem TEXT, duration REAL, width INTEGER,
    height INTEGER, fps REAL, frames INTEGER NOT NULL, tags TEXT NOT NULL, added REAL NOT NULL);
CREATE TABLE IF NOT EXISTS shards (
    id INTEGER PRIMARY KEY AUTOINCREMENT, track TEXT NOT NULL, rows INTEGER NOT NULL, pages INTEGER NOT NULL,
    about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sections (
    video INTEGER NOT NULL REFERENCES videos(id), shard INTEGER NOT NULL REFERENCES shards(id), row INTEGER NOT NULL,
    first_page INTEGER NOT NULL, pages INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (shard, row)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sections_of ON sections (video);
CREATE TABLE IF NOT EXISTS lines (
    video INTEGER NOT NULL REFERENCES videos(id), start REAL NOT NULL, end REAL NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS lines_of ON lines (video);
"""


# Added to a catalogue of an older version by the next change.
_BY_DATE = "CREATE INDEX IF NOT EXISTS videos_by_date ON videos (state, mtime)"


@dataclass(frozen=True)
class Video:
    """A file that the library knows. ``state`` is "ok" or "failed"; ``problem`` says why, or which part is missing."""

    id: int
    path: VideoFile
    size: int  # bytes
    mtime: int  # nanoseconds
    digest: str
    subtitles: str  # where its lines come from: subtitle files beside it, tracks inside it, or its speech
    state: str
    problem: str | None
    duration: float | None  # seconds
    width: int | None
    height: int | None
    fps: float | None
    frames: int  # that were encoded
    tags: tuple[str, ...]
    added: float  # seconds since 1970

    @property
    def date(self) -> float:
        """When the file was last changed, in seconds since 1970."""
        return self.mtime / 1e9

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def speech(self) -> str | None:
        """The model that wrote down what is said, and the language it detected; None if no model did."""
        return speech_of(self.subtitles)


SPEECH = "/speech "  # begins ``Video.subtitles`` where lines come from a model: its name and the language follow


def speech_of(subtitles: str) -> str | None:
    """The model and the language, where that is what the lines of a video come from."""
    return subtitles.removeprefix(SPEECH).partition("|")[0] if subtitles.startswith(SPEECH) else None


@dataclass(frozen=True)
class NewVideo:
    """A file that is about to be committed: the facts of ``Video``, without a number."""

    path: VideoFile
    size: int
    mtime: int
    digest: str
    subtitles: str = ""
    state: str = "ok"
    problem: str | None = None
    duration: float | None = None
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    frames: int = 0
    tags: tuple[str, ...] = ()
    added: float = field(default_factory=time.time)


class Catalogue:
    """Opens a connection for each piece of work, so any thread or process may use it."""

    def __init__(self, folder: Path):
        self.path = folder / CATALOGUE_FILE
        self._has_words = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read one consistent state: the last commit, whatever a writer is doing."""
        if not self.path.exists():
            self._require_new()
            with _empty() as db:
                yield db
            return
        with open_to_read(self.path) as db:
            if _has_tables(db):
                yield db
            else:  # killed before its first commit
                self._require_new()
                with _empty() as empty:
                    yield empty

    @contextmanager
    def writing(self, *, visible: bool = True, wait: float = _WAIT_SECONDS) -> Iterator[sqlite3.Connection]:
        """Become the only writer. Everything in the block takes effect together when it ends well, or not at all.

        When the block has ended, its changes survive a power cut.

        Args:
            visible: whether searches must look again; not if nothing changes that they see.
            wait: seconds to wait for another writer.
        """
        with open_to_write(self.path, wait) as db:
            try:
                if not _has_tables(db):
                    self._require_new()
                    for statement in _SCHEMA.split(";\n"):
                        db.execute(statement)
                    db.execute("INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT * FROM state)")
                if not has_words(db):
                    add_words(db)
                if not has_seals(db):
                    add_seals(db)
                db.execute(_BY_DATE)
                yield db
                if visible:
                    db.execute("UPDATE state SET generation = generation + 1")
                seal_changes(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def upgrade(self) -> bool:
        """Add the tables of words to a catalogue that an older version wrote. Returns False if that is not possible."""
        if not self._has_words:
            with self.reading() as db:
                self._has_words = has_words(db)
            if not self._has_words and self.writable:
                with suppress(LibraryError):
                    with self.writing(wait=_UPGRADE_SECONDS):
                        pass
                    self._has_words = True
        return self._has_words

    @property
    def writable(self) -> bool:
        """Whether this process may change the catalogue."""
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _require_new(self) -> None:
        """Raise an error if arrays exist but the catalogue is empty: it was lost."""
        if any(self.path.parent.glob("shards/*/*.bin")):
            raise LibraryError(
                f"{self.path} is empty or missing, but there are vectors beside it: restore it from a copy, or delete "
                f"{self.path.parent} and add the videos again"
            )


@contextmanager
def _empty() -> Iterator[sqlite3.Connection]:
    """The catalogue of a library that never held a video."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(_SCHEMA)
        add_words(db)
        add_seals(db)
        yield db


def _has_tables(db: sqlite3.Connection) -> bool:
    return _has_table(db, "lines")


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def read_generation(db: sqlite3.Connection) -> int:
    """A number that grows with every change of the library."""
    found = db.execute("SELECT generation FROM state").fetchone()
    try:
        return 0 if found is None else int(found[0])
    except (TypeError, ValueError, OverflowError):
        raise LibraryError("the catalogue's counter of changes is damaged: restore it from a copy") from None


def read_notes(db: sqlite3.Connection, names: str = "%") -> dict[str, str]:
    """Texts that the library keeps by name; ``names`` is a pattern of SQL's LIKE."""
    if not _has_table(db, "notes"):  # no note was ever written
        return {}
    return dict(db.execute("SELECT name, value FROM notes WHERE name LIKE ?", (names,)).fetchall())


def write_notes(db: sqlite3.Connection, notes: Mapping[str, str]) -> None:
    """Keep texts by name. They replace older ones of the same name."""
    db.execute("CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    db.executemany("INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)", notes.items())


_NUMBER = (int, float, type(None))
_KINDS: tuple[Any, ...] = (int, str, int, int, str, str, str, (str, type(None)), *4 * (_NUMBER,), int, str, _NUMBER)
_COLUMNS = "id, path, size, mtime, digest, subtitles, state, problem, duration, width, height, fps, frames, tags, added"


def read_videos(
    db: sqlite3.Connection, where: str = "1", values: tuple[object, ...] = (), order: str = "id"
) -> list[Video]:
    """Videos in order of their numbers. ``where`` and ``order`` are SQL from this program, never from a user."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM videos WHERE {where} ORDER BY {order}", values)
    return [video for video in map(_video, rows) if video is not None]


def _video(row: tuple[Any, ...]) -> Video | None:
    """The video of a row; None if the row is damaged. ``verify`` then names it."""
    facts = dict(zip(_COLUMNS.split(", "), row, strict=True))
    try:
        if not all(isinstance(value, kinds) for value, kinds in zip(row, _KINDS, strict=True)):
            return None
        facts["path"], facts["tags"] = video_path(facts["path"]), _parse_tags(facts["tags"])
        return Video(**facts)
    except (ValueError, TypeError, RecursionError):
        return None


def _parse_tags(text: str) -> tuple[str, ...]:
    return tuple(map(str, json.loads(text)))


def known_tags(text: str) -> tuple[str, ...]:
    """The tags in a row of the catalogue; none if the row is damaged."""
    try:
        return _parse_tags(text)
    except (ValueError, TypeError, RecursionError):
        return ()


def unreadable_videos(db: sqlite3.Connection) -> dict[int, str]:
    """Numbers and paths of the rows that are damaged, so that ``read_videos`` leaves them out."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM videos ORDER BY id")
    return {row[0]: str(row[1]) for row in rows if _video(row) is None}


def put_video(db: sqlite3.Connection, video: NewVideo) -> int:
    """Write a video and return its number. It replaces what was known of the same path."""
    known = db.execute("SELECT id, tags FROM videos WHERE path = ?", (str(video.path),)).fetchone()
    tags = set(video.tags)
    if known is not None:
        drop_content(db, known[0])
        tags |= set(known_tags(known[1]))
    values = {**vars(video), "path": str(video.path), "tags": json.dumps(sorted(tags))}
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    db.execute(
        f"INSERT INTO videos ({names}) VALUES ({marks}) ON CONFLICT (path) DO UPDATE SET {changes}",
        tuple(values.values()),
    )
    return int(db.execute("SELECT id FROM videos WHERE path = ?", (str(video.path),)).fetchone()[0])


def drop_content(db: sqlite3.Connection, video: int) -> None:
    """Delete the sections and subtitle lines of a video."""
    db.execute("DELETE FROM sections WHERE video = ?", (video,))
    db.execute("DELETE FROM lines WHERE video = ?", (video,))


def drop_video(db: sqlite3.Connection, video: int) -> None:
    drop_content(db, video)
    db.execute("DELETE FROM videos WHERE id = ?", (video,))


def rename_video(db: sqlite3.Connection, video: int, path: VideoFile, mtime: int) -> None:
    """Note that a video has a new name or modification time, with the same content."""
    db.execute("UPDATE videos SET path = ?, mtime = ? WHERE id = ?", (str(path), mtime, video))


def read_lines(db: sqlite3.Connection, video: int, start: float, end: float) -> list[TimedLine]:
    """The subtitle lines of a video between two times, in order."""
    rows = db.execute(
        "SELECT start, end, text FROM lines WHERE video = ? AND start < ? AND end > ? ORDER BY start",
        (video, end, start),
    )
    return [TimedLine(*row) for row in rows]
