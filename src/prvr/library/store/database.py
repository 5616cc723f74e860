"""Connections to the SQLite file of a catalogue: commits that survive a power cut, readers that wait for nobody.

The file is in WAL mode with full synchronisation. A commit is on the disk when it returns, and readers see the last
commit while a writer works, waits or stands still. After each commit the log is copied into the file and emptied.
``catalogue.sqlite-wal`` and ``-shm`` stay beside it: SQLite would delete them under a lock that readers wait for.
Where WAL does not work, SQLite keeps a rollback journal, whose removal is synchronised as well.

WAL needs memory that all processes share, so they must run on one machine. SQLite does not notice when two machines
open the file on a network disk, and commits may then be lost: several machines use a lake.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from prvr.files import Busy, exclusive_lock, sync_folder
from prvr.library.errors import LibraryError

_LOCK_FILE = "catalogue.lock"  # names the process that writes
_READ_SECONDS = 10.0  # a reader waits only while another process opens the file for the first time after a kill


@contextmanager
def open_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection in a transaction that sees one consistent state."""
    with _explain_problems(path), _closing(_begin_reading(path)) as db:
        _require_whole(db, path)
        yield db


@contextmanager
def open_to_write(path: Path, wait: float) -> Iterator[sqlite3.Connection]:
    """A connection that is the only writer, in a transaction; the caller commits or rolls back.

    Args:
        wait: seconds to wait for another writer.

    Raises:
        LibraryError: another process still writes; the message says which.
    """
    end = time.monotonic() + wait
    with ExitStack() as stack:
        stack.enter_context(_explain_problems(path))
        _lock_out_writers(stack, path, wait)
        new = not path.exists()
        db = _connect(path, "mode=rwc", max(0.0, end - time.monotonic()))
        stack.callback(_close_quietly, db, path)
        with suppress(sqlite3.OperationalError):  # of an older version, and somebody reads it: next time
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = EXTRA")  # in WAL mode the same as FULL
        db.execute("BEGIN IMMEDIATE")
        if new:
            sync_folder(path.parent)
        yield db
        empty_log(db)


def empty_log(db: sqlite3.Connection) -> None:
    """Copy the log into the file and truncate it, unless a reader still needs it. The next commit tries again."""
    with suppress(sqlite3.Error):  # also a full disk: what is committed stays in the log
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _lock_out_writers(stack: ExitStack, path: Path, wait: float) -> None:
    """Queue behind other writers. SQLite locks them out as well, but cannot say which process writes."""
    try:
        stack.enter_context(exclusive_lock(path.with_name(_LOCK_FILE), wait=wait))
    except Busy as busy:
        raise LibraryError(
            f"{busy.holder or 'another process'} is writing to {path.parent} and has not finished in {wait:.0f} "
            "seconds: try again when it is done, or end it if it hangs"
        ) from None
    except OSError:  # a folder that cannot be written: SQLite says so too
        pass


def _begin_reading(path: Path) -> sqlite3.Connection:
    # Who rolls back the journal of a killed writer needs to write. Other readers must not: the last one to close a
    # connection that can write locks all others out while it cleans up.
    hot = path.with_name(f"{path.name}-journal").exists() and os.access(path, os.W_OK)
    db = _connect(path, "mode=rw" if hot else "mode=ro", _READ_SECONDS)
    try:
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        return db
    except sqlite3.OperationalError:
        db.close()
        if os.access(path.parent, os.W_OK) or _log_size(path):
            raise
    db = _connect(path, "immutable=1", _READ_SECONDS)  # a copy on a disk that nobody can write, without -wal and -shm
    db.execute("BEGIN")
    return db


def _close_quietly(db: sqlite3.Connection, path: Path) -> None:
    """Close a connection that can write, while another is open: the last one would lock readers out to clean up."""
    try:
        guard = _connect(path, "mode=ro", 0.0)
    except LibraryError:
        db.close()
        return
    with _closing(guard):
        with suppress(sqlite3.Error):
            guard.execute("SELECT 1 FROM sqlite_master").fetchone()
        db.close()


def _connect(path: Path, options: str, wait: float) -> sqlite3.Connection:
    try:
        uri = f"{path.resolve().as_uri()}?{options}"
        db = sqlite3.connect(uri, timeout=wait, isolation_level=None, uri=True)
        db.text_factory = lambda text: text.decode("utf-8", "replace")  # a changed bit must not hide all other rows
        return db
    except sqlite3.Error as problem:
        raise LibraryError(f"{path} cannot be opened: {problem}") from problem


def _log_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0


def _require_whole(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a truncated file. SQLite notices missing pages, but reads the missing end of the last page as zeros."""
    (page,) = db.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % page and not _log_size(path):
        raise LibraryError(f"{path} is cut short: restore it from a copy, or create the library again")


@contextmanager
def _closing(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield db
    finally:
        db.close()


@contextmanager
def _explain_problems(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:
        text = str(problem)
        if "full" in text:
            remedy = "free some space and run the command again; what was added so far is kept"
        elif "locked" in text:
            remedy = "another process is still writing; try again when it is done"
        elif "fts5" in text:
            remedy = "the SQLite of this Python was built without full-text search (FTS5); use another Python"
        elif "readonly" in text:
            remedy = "this user can search the library, but not change it"
        else:
            remedy = "if this happens again, restore it from a copy or create the library again"
        raise LibraryError(f"{path}: {text}: {remedy}") from problem
