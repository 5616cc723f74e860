"""Build new vectors of the pictures beside the old ones, then switch to them in one step.

The new sections are those of a track that no search reads (``arrays.NEW``). A video is done when it has some. The
switch is one transaction: it deletes the old sections, renames the track, and writes the record that says how the
vectors were made. Numbers, tags, subtitles and files that failed stay as they are.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Protocol

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import NEW, Appender
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import Catalogue, Video, read_notes, read_videos, write_notes
from prvr.library.store.claims import claim, claim_holder
from prvr.library.store.commit import disk_error, require_current
from prvr.library.store.compact import sweep
from prvr.library.store.settings import RECORD_NOTE, LibraryRecord, parse_record, write_reindexed_record

_TRACK = "frames"
_NEW_TRACK = f"{NEW}{_TRACK}"
_TARGET = "rebuild"  # note: the record of the vectors that are being built
_FACTS = "rebuilt:"  # notes: what is known of each video that is done
_OF_TRACK = "SELECT id FROM shards WHERE track = ?"
_MISSING = f"state = 'ok' AND id NOT IN (SELECT video FROM sections WHERE shard IN ({_OF_TRACK}))"
_UPDATED = ("duration", "width", "height", "fps", "frames", "problem")


class Rebuild(Protocol):
    """New vectors that are being built. Only one process at a time can hold it; ``close`` lets go."""

    def missing(self) -> list[Video]:
        """The videos that have no new vectors yet."""

    def put(self, video: Video, indexed: IndexedVideo) -> None:
        """Keep the new vectors of a video."""

    def switch(self) -> bool:
        """Search the new vectors from now on. False, and nothing happens, if videos were added meanwhile."""

    def close(self) -> None: ...


class FolderRebuild:
    """New vectors in a library's folder."""

    def __init__(self, catalogue: Catalogue, folder: Path, record: LibraryRecord, target: LibraryRecord):
        self.catalogue, self.folder, self.record, self.target = catalogue, folder, record, target
        held = claim(folder, Path(_TARGET))
        if held is None:
            holder = claim_holder(folder, Path(_TARGET)) or "another process"
            raise LibraryError(f"{holder} is reindexing {folder}: wait until it ends")
        self.claim = held
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Go on with vectors of the same kind; delete those of any other kind."""
        try:
            write_reindexed_record(self.folder, self.record)  # a prvr that cannot tell new vectors apart refuses it
            with self.catalogue.writing(visible=False) as db:
                require_current(db, self.folder, self.record)
                begun = read_notes(db, _TARGET).get(_TARGET)
                if begun is None or not _same(parse_record(begun, str(self.folder), str(self.folder)), self.target):
                    _drop_unfinished(db)
                    write_notes(db, {_TARGET: self.target.to_json()})
            with self.catalogue.writing(visible=False) as db:  # after the commit: what it dropped may be deleted now
                sweep(db, self.folder)
        except OSError as problem:
            raise disk_error(self.folder, problem) from problem

    def missing(self) -> list[Video]:
        with self.catalogue.reading() as db:
            return read_videos(db, _MISSING, (_NEW_TRACK,))

    def put(self, video: Video, indexed: IndexedVideo) -> None:
        facts = json.dumps({name: getattr(indexed.video, name) for name in _UPDATED})
        try:
            with self.catalogue.writing(visible=False) as db, Appender(db, self.folder) as appender:
                if read_videos(db, "id = ? AND digest = ? AND state = 'ok'", (video.id, video.digest)):
                    db.execute(
                        f"DELETE FROM sections WHERE video = ? AND shard IN ({_OF_TRACK})", (video.id, _NEW_TRACK)
                    )
                    for section in indexed.tracks[_TRACK]:
                        appender.append(_NEW_TRACK, video.id, section)
                    write_notes(db, {f"{_FACTS}{video.id}": facts})
        except OSError as problem:
            raise disk_error(self.folder, problem) from problem

    def switch(self) -> bool:
        with self.catalogue.writing() as db:
            require_current(db, self.folder, self.record)
            if read_videos(db, _MISSING, (_NEW_TRACK,)):
                return False
            for name, facts in read_notes(db, f"{_FACTS}%").items():
                values = json.loads(facts)
                changes = ", ".join(f"{column} = ?" for column in values)
                number = int(name.removeprefix(_FACTS))
                db.execute(f"UPDATE videos SET {changes} WHERE id = ? AND state = 'ok'", (*values.values(), number))
            _drop_track(db, _TRACK)
            db.execute("UPDATE shards SET track = ? WHERE track = ?", (_TRACK, _NEW_TRACK))
            _drop_notes(db)
            write_notes(db, {RECORD_NOTE: self.target.to_json()})
        write_reindexed_record(self.folder, self.target)  # for people: the catalogue has it already
        with self.catalogue.writing(visible=False) as db:
            sweep(db, self.folder)
        return True

    def close(self) -> None:
        self.claim.release()


def abandon_rebuild(catalogue: Catalogue, folder: Path) -> bool:
    """Delete the new vectors that a process began to build. False if there are none, or it is still at work."""
    with catalogue.reading() as db:
        begun = _TARGET in read_notes(db, _TARGET)
    held = claim(folder, Path(_TARGET)) if begun else None
    if held is None:
        return False
    try:
        with catalogue.writing(visible=False) as db:
            _drop_unfinished(db)
        with catalogue.writing(visible=False) as db:  # after the commit: what it dropped may be deleted now
            sweep(db, folder)
    except OSError as problem:
        raise disk_error(folder, problem) from problem
    finally:
        held.release()
    return True


def _same(one: LibraryRecord, other: LibraryRecord) -> bool:
    """Whether two records describe the same vectors, perhaps of two versions of this program."""
    return one.settings == other.settings and one.recipes == other.recipes


def _drop_unfinished(db: sqlite3.Connection) -> None:
    _drop_track(db, _NEW_TRACK)
    _drop_notes(db)


def _drop_notes(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM notes WHERE name = ? OR name LIKE ?", (_TARGET, f"{_FACTS}%"))


def _drop_track(db: sqlite3.Connection, track: str) -> None:
    db.execute(f"DELETE FROM sections WHERE shard IN ({_OF_TRACK})", (track,))
    db.execute("DELETE FROM shards WHERE track = ?", (track,))
