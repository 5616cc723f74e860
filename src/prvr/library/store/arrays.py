"""Vectors on disk: arrays that grow, in a few large files ``shards/ID/NAME.bin``.

The catalogue holds the committed length of every shard. A writer appends behind it and then commits the new length,
so bytes behind the committed length mean nothing; a killed process may have left some there. Readers look only at what
is committed. Removed videos leave dead rows until ``compact`` copies the living rows into a new shard. The catalogue
keeps a checksum of the arrays of every section; where an older version wrote it, there is none.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.files import make_folder, sync_folder
from prvr.library.errors import LibraryError
from prvr.library.store.rows import (
    NO_CHECKSUM,
    PAGED_ARRAYS,
    SHARDS_FOLDER,
    bytes_checksum,
)
from prvr.library.store.seals import broken_seals, has_seals
from prvr.scoring import array_bytes

NEW = "new:"  # before the name of a track: vectors that ``rebuild.py`` builds beside those that are searched
SHARD_LIMIT = 1 << 28  # bytes of a shard's largest array; then a new shard begins


class ShardMissing(Exception):
    """The files of a shard are gone, because it was compacted: read the catalogue again."""


@dataclass(frozen=True)
class Shard:
    """A group of arrays that grow together: one row of the catalogue."""

    id: int
    track: str
    rows: int
    pages: int
    about: dict[str, Any]  # arrays by name: dtype and shape without the first axis; and the gallery's description

    def length(self, name: str) -> int:
        return self.pages if name in PAGED_ARRAYS else self.rows

    def described(self, name: str) -> dict[str, Any]:
        """The type and shape of an array."""
        about = self.about["arrays"][name]
        return {"dtype": about["dtype"], "shape": [self.length(name), *about["shape"]]}

    def bytes(self, name: str) -> int:
        return self.length(name) * int(self.about["arrays"][name]["item"])

    def is_complete(self, library: Path) -> bool:
        """Whether its files are as long as they should be."""
        place = library / SHARDS_FOLDER / str(self.id)
        needed = ((place / f"{name}.bin", self.bytes(name)) for name in self.about["arrays"])
        return all(size == 0 or (path.is_file() and path.stat().st_size >= size) for path, size in needed)


@dataclass(frozen=True)
class Section:
    """A stretch of a video: the arrays of a gallery with one row, and the times of its tokens."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]  # (1, …) or (pages, …)
    tokens: int

    @property
    def pages(self) -> int:
        return len(self.arrays["spans"])


def is_new(track: str) -> bool:
    """Whether a track is still being built, and is not searched yet."""
    return track.startswith(NEW)


def read_shards(db: sqlite3.Connection, damaged: list[int] | None = None) -> list[Shard]:
    """All shards that the catalogue knows.

    Args:
        damaged: takes the numbers of shards that are not described as they were written; without it, that is an error.
    """
    broken = {*broken_seals(db, "shard")} if has_seals(db) else set()
    shards = []
    for number, track, rows, pages, about in db.execute("SELECT id, track, rows, pages, about FROM shards ORDER BY id"):
        try:
            if number in broken:
                raise ValueError("its checksum differs")
            shards.append(Shard(number, str(track), int(rows), int(pages), _description(about)))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as problem:
            if damaged is None:
                raise LibraryError(
                    f"the catalogue describes shard {number} wrongly ({problem}): `prvr library repair` indexes its "
                    "videos again"
                ) from None
            damaged.append(number)
    return shards


def _description(text: str) -> dict[str, Any]:
    """What the catalogue says of the arrays of a shard, if it says what is needed."""
    about: dict[str, Any] = json.loads(text)
    for of_array in about["arrays"].values():
        _ = np.dtype(of_array["dtype"]), [int(size) for size in of_array["shape"]], int(of_array["item"])
    _ = about["gallery"]["trace"]
    return about


def section_checksum(arrays: Mapping[str, NDArray[Any]]) -> int:
    """The checksum of the arrays of one section."""
    return bytes_checksum({name: array_bytes(array) for name, array in arrays.items()})


class Appender:
    """Appends sections behind the committed ones. Use it as a block inside ``Catalogue.writing``.

    When the block ends, the bytes are on disk. A block that fails truncates the files to their committed length.
    Only the files of one shard of each track are open at a time.
    """

    def __init__(self, db: sqlite3.Connection, folder: Path):
        self.db, self.folder = db, folder
        self.last: dict[str, Shard] = {shard.track: shard for shard in read_shards(db, damaged=[])}
        self.committed: dict[Path, int] = {}  # bytes of every file that was written to
        self.handles: dict[Path, int] = {}  # of those that are open
        self.complete: dict[int, bool] = {}  # by shard

    def append(self, track: str, video: int, section: Section, checksum: int = NO_CHECKSUM) -> None:
        """Write a section. ``checksum``: what it had before it was copied; by default, it is computed."""
        described = _describe(section)
        shard = self.last.get(track)
        if (
            shard is None
            or shard.about != described
            or shard.bytes("local.values") >= SHARD_LIMIT
            or not self._is_complete(shard)
        ):
            if shard is not None:
                self._close(self.folder / SHARDS_FOLDER / str(shard.id))
            shard = _begin(self.db, track, described)
            self.complete[shard.id] = True
        for name, array in section.arrays.items():
            place = shard.bytes(name)
            _write_all(self._handle(shard, name, place), array_bytes(array), place)
        self.db.execute(
            "INSERT INTO sections (video, shard, row, first_page, pages, tokens, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                video,
                shard.id,
                shard.rows,
                shard.pages,
                section.pages,
                section.tokens,
                section_checksum(section.arrays) if checksum == NO_CHECKSUM else checksum,
            ),
        )
        shard = Shard(shard.id, track, shard.rows + 1, shard.pages + section.pages, shard.about)
        self.db.execute("UPDATE shards SET rows = ?, pages = ? WHERE id = ?", (shard.rows, shard.pages, shard.id))
        self.last[track] = shard

    def _is_complete(self, shard: Shard) -> bool:
        """Whether the files of a shard are as long as they should be. To a damaged one nothing is added."""
        if shard.id not in self.complete:
            self.complete[shard.id] = shard.is_complete(self.folder)
        return self.complete[shard.id]

    def _handle(self, shard: Shard, name: str, place: int) -> int:
        path = self.folder / SHARDS_FOLDER / str(shard.id) / f"{name}.bin"
        if path not in self.handles:
            make_folder(path.parent)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            self.handles[path] = handle
            self.committed[path] = place
            os.ftruncate(handle, place)  # drop what a killed process left behind
        return self.handles[path]

    def _close(self, place: Path) -> None:
        """Wait until the files of a shard are on the disk, and close them: nothing more is added to it."""
        for path in [path for path in self.handles if path.parent == place]:
            os.fsync(self.handles[path])
            os.close(self.handles.pop(path))

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for place in {path.parent for path in self.committed}:
                    self._close(place)
                    sync_folder(place)
        except OSError:
            self._truncate()
            raise
        else:
            if error is not None:
                self._truncate()
        finally:
            for handle in self.handles.values():
                os.close(handle)

    def _truncate(self) -> None:
        for path, committed in self.committed.items():
            os.truncate(path, committed)


def short_message(path: Path, found: int, expected: int) -> str:
    """The message about an array whose end is missing."""
    return f"{path} holds {found} bytes, expected {expected}: restore it, or run `prvr library repair`"


def _describe(section: Section) -> dict[str, Any]:
    arrays = {}
    for name, array in section.arrays.items():
        arrays[name] = {"dtype": array.dtype.name, "shape": list(array.shape[1:]), "item": array[0].nbytes}
    return json.loads(json.dumps({"arrays": arrays, "gallery": section.about}))


def _begin(db: sqlite3.Connection, track: str, about: dict[str, Any]) -> Shard:
    found = db.execute("INSERT INTO shards (track, rows, pages, about) VALUES (?, 0, 0, ?)", (track, json.dumps(about)))
    assert found.lastrowid is not None
    return Shard(found.lastrowid, track, 0, 0, about)


def _write_all(handle: int, data: memoryview, place: int) -> None:
    os.lseek(handle, place, os.SEEK_SET)
    while len(data):
        written = os.write(handle, data)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = data[written:]
