"""The words of a library: SQLite full-text tables (FTS5) of subtitle lines, file names, folders and tags.

``line_words`` and ``name_words`` index the tables ``lines`` and ``videos`` of the same database. Triggers keep them
true, in the transaction that changes those tables.

Words are compared without case and accents, and by their English stem ("opens" finds "opening"). Other languages lose
little by it, because texts and queries are stemmed alike. FTS5 takes a run of Chinese, Japanese or Thai as one word.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from prvr.library.errors import LibraryError
from prvr.media import TimedLine

NAME_COLUMNS = ("name", "folder", "tags")
_MOST_ROWS = 20_000  # lines that one term reads; more take longer than anybody waits
_TOKENIZER = "tokenize = 'porter unicode61 remove_diacritics 2'"
_NAMES = "name_words (rowid, name, folder, tags) SELECT id, name, folder, tags FROM video_names WHERE id"
_NO_NAMES = (
    "name_words (name_words, rowid, name, folder, tags) SELECT 'delete', id, name, folder, tags FROM video_names "
    "WHERE id"
)
# Each statement ends with a semicolon at the end of a line, and holds no other.
WORDS_SCHEMA = rf"""
CREATE VIEW video_names AS
    SELECT id, substr(path, length(folder) + 1) AS name, folder,
           (SELECT group_concat(value, ', ') FROM json_each(CASE WHEN json_valid(tags) THEN tags ELSE '[]' END)) AS tags
    FROM (SELECT id, path, tags, rtrim(path, replace(replace(path, '/', ''), '\', '')) AS folder FROM videos);
CREATE VIRTUAL TABLE name_words USING fts5(name, folder, tags, content = '', {_TOKENIZER});
CREATE VIRTUAL TABLE line_words USING fts5(
    video UNINDEXED, start UNINDEXED, "end" UNINDEXED, text, content = 'lines', {_TOKENIZER});
CREATE TRIGGER line_added AFTER INSERT ON lines BEGIN
    INSERT INTO line_words (rowid, video, text) VALUES (new.rowid, new.video, new.text); END;
CREATE TRIGGER line_removed AFTER DELETE ON lines BEGIN
    INSERT INTO line_words (line_words, rowid, video, text) VALUES ('delete', old.rowid, old.video, old.text); END;
CREATE TRIGGER video_added AFTER INSERT ON videos BEGIN INSERT INTO {_NAMES} = new.id; END;
CREATE TRIGGER video_removed BEFORE DELETE ON videos BEGIN INSERT INTO {_NO_NAMES} = old.id; END;
CREATE TRIGGER name_replaced BEFORE UPDATE OF path, tags ON videos BEGIN INSERT INTO {_NO_NAMES} = old.id; END;
CREATE TRIGGER name_added AFTER UPDATE OF path, tags ON videos BEGIN INSERT INTO {_NAMES} = new.id; END;
"""


def has_words(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT name FROM sqlite_master WHERE name = 'name_added'").fetchone() is not None


def add_words(db: sqlite3.Connection) -> None:
    """Add the tables of words to a database that has videos and lines, and fill them."""
    for statement in WORDS_SCHEMA.split(";\n"):
        db.execute(statement)
    db.execute(f"INSERT INTO {_NAMES} IS NOT NULL")
    db.execute("INSERT INTO line_words (line_words) VALUES ('rebuild')")


def rebuild_words(db: sqlite3.Connection) -> None:
    """Make the tables of words again from the videos and lines."""
    for kind, name in db.execute(
        "SELECT type, name FROM sqlite_master WHERE name IN ('video_names', 'name_words', 'line_words') OR "
        "type = 'trigger' AND name IN ('line_added', 'line_removed', 'video_added', 'video_removed', 'name_replaced', "
        "'name_added') ORDER BY type"  # triggers before tables and views
    ).fetchall():
        db.execute(f"DROP {kind} {name}")
    add_words(db)


def words_problem(db: sqlite3.Connection) -> str | None:
    """What is wrong with the tables of words, or None. Use it on a copy: it writes."""
    if not has_words(db):
        return None
    try:
        db.execute("INSERT INTO line_words (line_words) VALUES ('integrity-check')")
        db.execute("CREATE VIRTUAL TABLE temp.name_words_found USING fts5vocab(main, name_words, instance)")
        columns = "SELECT term, doc, col, offset FROM name_words_found ORDER BY 1, 2, 3, 4"
        before = db.execute(columns).fetchall(), db.execute("SELECT id, sz FROM name_words_docsize").fetchall()
        db.execute("DROP TABLE temp.name_words_found")
        rebuild_words(db)
        db.execute("CREATE VIRTUAL TABLE temp.name_words_found USING fts5vocab(main, name_words, instance)")
        after = db.execute(columns).fetchall(), db.execute("SELECT id, sz FROM name_words_docsize").fetchall()
        return None if before == after else "names are not indexed as they are"
    except (sqlite3.Error, UnicodeDecodeError) as problem:
        return str(problem)


# -- looking words up -------------------------------------------------------------------------------------------------


class FoundLine(NamedTuple):
    """A subtitle line and its video."""

    video: int
    start: float
    end: float
    text: str


def text_counts(db: sqlite3.Connection) -> tuple[int, int]:
    """How many subtitle lines and how many videos there are."""
    return tuple(db.execute("SELECT (SELECT COUNT(*) FROM lines), (SELECT COUNT(*) FROM videos)").fetchone())


def match_counts(db: sqlite3.Connection, match: str) -> tuple[int, int]:
    """In how many subtitle lines, and in the names, folders or tags of how many videos, a match occurs."""
    lines, names = (
        int(db.execute(f"SELECT COUNT(*) FROM {table} WHERE {table} MATCH ?", (match,)).fetchone()[0])
        for table in ("line_words", "name_words")
    )
    return lines, names


def matching_names(db: sqlite3.Connection, match: str, column: str) -> Iterator[tuple[int, float]]:
    """Numbers of the videos with a match in a column, and how well it matches (BM25, higher is better)."""
    yield from db.execute(
        "SELECT rowid, -bm25(name_words) FROM name_words WHERE name_words MATCH ?", (f"{column} : ({match})",)
    )


def matching_lines(
    db: sqlite3.Connection, match: str, within: str | None = None
) -> Iterator[tuple[int, FoundLine, float]]:
    """Each line with a match, its row, and how well it matches; some of them if there are very many.

    With ``within``, only lines that match this as well.
    """
    rows = 'SELECT rowid, video, start, "end", text, -bm25(line_words) FROM line_words WHERE line_words MATCH ?'
    if within is not None:  # +: look them up once, not for every row
        rows += f" AND +rowid IN (SELECT rowid FROM line_words WHERE line_words MATCH ? LIMIT {_MOST_ROWS})"
    found = db.execute(f"{rows} LIMIT {_MOST_ROWS}", (match,) if within is None else (match, within))
    for row, video, start, end, text, score in found:
        try:
            line = FoundLine(int(video), float(start), float(end), str(text))
        except (TypeError, ValueError) as problem:  # a row that no version of this program wrote
            raise LibraryError(f"the catalogue is damaged ({problem}): restore it from a copy") from problem
        yield row, line, score


def found_names(db: sqlite3.Connection, videos: Sequence[int]) -> dict[int, dict[str, str]]:
    """Name, folder and tags of videos."""
    found = db.execute(
        "SELECT id, name, folder, tags FROM video_names WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(videos),),
    )
    return {video: dict(zip(NAME_COLUMNS, columns, strict=True)) for video, *columns in found}


# -- a database of its own --------------------------------------------------------------------------------------------

NamedVideo = tuple[str, Sequence[str], Hashable]  # path, tags, and what changes when the video is indexed again
ReadVideoLines = Callable[[list[int]], Iterable[tuple[int, Sequence[TimedLine]]]]  # numbers -> number, lines


class ScratchWords:
    """The tables of words in a temporary database, for a library that cannot keep them itself."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[int, NamedVideo] = {}
        self.generation: Hashable = None
        self.db = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # in memory until it grows large
        self.db.execute("CREATE TABLE videos (id INTEGER PRIMARY KEY, path TEXT, tags TEXT)")
        self.db.execute("CREATE TABLE lines (video INTEGER, start REAL, end REAL, text TEXT)")
        self.db.execute("CREATE INDEX lines_of ON lines (video)")
        add_words(self.db)

    @contextmanager
    def holding(
        self, generation: Hashable, videos: Callable[[], Mapping[int, NamedVideo]], read_lines: ReadVideoLines
    ) -> Iterator[sqlite3.Connection]:
        """The database with exactly these videos. Only what has changed since the last call is read and written.

        Args:
            generation: differs between two states of the library.
            videos: gives all videos that can be searched.
            read_lines: reads the subtitle lines of some.
        """
        with self.lock:
            if generation != self.generation:
                self._replace(videos(), read_lines)
                self.generation = generation
            yield self.db

    def _replace(self, videos: Mapping[int, NamedVideo], read_lines: ReadVideoLines) -> None:
        gone = [number for number, video in self.known.items() if videos.get(number) != video]
        new = {number: video for number, video in videos.items() if self.known.get(number) != video}
        db = self.db
        db.execute("BEGIN")
        try:
            for table, column in (("lines", "video"), ("videos", "id")):
                db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(number,) for number in gone])
            rows = [(number, path, json.dumps([*tags])) for number, (path, tags, _) in new.items()]
            db.executemany("INSERT INTO videos VALUES (?, ?, ?)", rows)
            for number, lines in read_lines([*new]) if new else ():
                rows_of_lines = [(number, line.start, line.end, line.text) for line in lines]
                db.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", rows_of_lines)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        for number in gone:
            del self.known[number]
        self.known.update(new)
