"""Arrays on disk that grow: ``shards/ID/NAME.bin``, a few large files however many videos there are.

A shard's committed length stands in the catalogue. Writers append behind it and then commit the new length, so bytes
behind the committed length mean nothing, whatever a killed process left there; readers map what is committed. Removed
videos leave dead rows until ``compact`` copies the living into a new shard.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from prvr.files import sync_folder
from prvr.library.errors import LibraryError
from prvr.scoring import PAGED, describe_array, map_array, raw_bytes

SHARDS = "shards"
PAGED_ARRAYS = (*PAGED, "spans")
LARGEST = 1 << 28  # bytes of a shard's largest array from which on a new shard is begun


class ShardMissing(Exception):
    """A shard's files went away (it was compacted): look at the catalogue again."""


@dataclass(frozen=True)
class Shard:
    """A row of the catalogue."""

    id: int
    track: str
    rows: int
    pages: int
    about: dict[str, Any]  # arrays by name: dtype and shape without the first axis; and what a gallery needs to know

    def length(self, name: str) -> int:
        return self.pages if name in PAGED_ARRAYS else self.rows

    def described(self, name: str) -> dict[str, Any]:
        """An array's type and shape."""
        about = self.about["arrays"][name]
        return {"dtype": about["dtype"], "shape": [self.length(name), *about["shape"]]}

    def counts_with(self, pages: Tensor) -> bool:
        """Whether the pages of all rows, (rows,), are as many as the catalogue says."""
        return bool((pages >= 0).all()) and int(pages.sum()) == self.pages

    def bytes(self, name: str) -> int:
        return self.length(name) * int(self.about["arrays"][name]["item"])


@dataclass(frozen=True)
class Section:
    """A stretch of a video as the arrays of a gallery of one, and their seconds."""

    about: dict[str, Any]
    arrays: dict[str, Tensor]  # (1, …) or (pages, …)
    tokens: int

    @property
    def pages(self) -> int:
        return len(self.arrays["spans"])


def read_shards(db: sqlite3.Connection, track: str | None = None) -> list[Shard]:
    found = db.execute("SELECT id, track, rows, pages, about FROM shards ORDER BY id")
    shards = [Shard(number, name, rows, pages, json.loads(about)) for number, name, rows, pages, about in found]
    return [shard for shard in shards if track in (None, shard.track)]


class Appender:
    """Adds sections behind the committed ones; use inside ``Catalogue.writing``, as a block.

    Bytes have reached the disk when the block ends; a block that fails gives them back.
    """

    def __init__(self, db: sqlite3.Connection, folder: Path):
        self.db, self.folder = db, folder
        self.last: dict[str, Shard] = {shard.track: shard for shard in read_shards(db)}
        self.files: dict[Path, tuple[int, int]] = {}  # handle and committed bytes

    def append(self, track: str, video: int, section: Section) -> None:
        described = _describe(section)
        shard = self.last.get(track)
        if shard is None or shard.about != described or shard.bytes("local.values") >= LARGEST:
            shard = _begin(self.db, track, described)
        for name, tensor in section.arrays.items():
            place = shard.bytes(name)
            _write_all(self._handle(shard, name, place), raw_bytes(tensor), place)
        self.db.execute(
            "INSERT INTO sections (video, shard, row, first_page, pages, tokens) VALUES (?, ?, ?, ?, ?, ?)",
            (video, shard.id, shard.rows, shard.pages, section.pages, section.tokens),
        )
        shard = Shard(shard.id, track, shard.rows + 1, shard.pages + section.pages, shard.about)
        self.db.execute("UPDATE shards SET rows = ?, pages = ? WHERE id = ?", (shard.rows, shard.pages, shard.id))
        self.last[track] = shard

    def _handle(self, shard: Shard, name: str, place: int) -> int:
        path = self.folder / SHARDS / str(shard.id) / f"{name}.bin"
        if path not in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
            if (there := os.fstat(handle).st_size) < place:  # what is missing would be filled with zeros
                os.close(handle)
                raise LibraryError(too_short(path, there, place))
            self.files[path] = (handle, place)
            os.ftruncate(handle, place)  # drop what a killed process left there
        return self.files[path][0]

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for handle, _ in self.files.values():
                    os.fsync(handle)
                for place in {path.parent for path in self.files}:
                    sync_folder(place)
        except OSError:
            self._give_back()
            raise
        else:
            if error is not None:
                self._give_back()
        finally:
            for handle, _ in self.files.values():
                os.close(handle)

    def _give_back(self) -> None:
        for handle, committed in self.files.values():
            os.ftruncate(handle, committed)


def damaged(path: Path) -> str:
    """What is wrong with an array that is long enough, but nonsense."""
    return f"{path} is damaged (its numbers are none): restore it, or remove and add its videos"


def too_short(path: Path, found: int, expected: int) -> str:
    """What is wrong with an array of which a part is gone."""
    return f"{path} holds {found} bytes, expected {expected}: restore it, or remove and add its videos"


def _describe(section: Section) -> dict[str, Any]:
    arrays = {}
    for name, tensor in section.arrays.items():
        item = tensor[0].numel() * tensor.element_size()
        arrays[name] = {"dtype": describe_array(tensor)["dtype"], "shape": list(tensor.shape[1:]), "item": item}
    return json.loads(json.dumps({"arrays": arrays, "gallery": section.about}))


def _begin(db: sqlite3.Connection, track: str, about: dict[str, Any]) -> Shard:
    found = db.execute("INSERT INTO shards (track, rows, pages, about) VALUES (?, 0, 0, ?)", (track, json.dumps(about)))
    assert found.lastrowid is not None
    return Shard(found.lastrowid, track, 0, 0, about)


def _write_all(handle: int, data: memoryview, place: int) -> None:
    while len(data):
        written = os.pwrite(handle, data, place)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data, place = data[written:], place + written


def map_shard(folder: Path, shard: Shard) -> dict[str, Tensor]:
    """The committed arrays of a shard, mapped into memory."""
    place = folder / SHARDS / str(shard.id)
    if not place.is_dir():
        raise ShardMissing(str(place))
    found = {}
    for name in shard.about["arrays"]:
        try:
            found[name] = map_array(place / f"{name}.bin", shard.described(name), growing=True)
        except FileNotFoundError:
            raise ShardMissing(str(place)) from None
    if not shard.counts_with(found["pages"]):
        raise LibraryError(damaged(place / "pages.bin"))
    return found


def compact(db: sqlite3.Connection, folder: Path) -> list[Path]:
    """Copy the living rows of shards with dead ones into new shards; inside ``Catalogue.writing``.

    Returns folders that are of no use once this is committed.
    """
    with Appender(db, folder) as appender:
        appender.last.clear()  # into new shards only: an old one may be next to be compacted
        return _compact(db, folder, appender)


def _compact(db: sqlite3.Connection, folder: Path, appender: Appender) -> list[Path]:
    useless = []
    for shard in read_shards(db):
        rows = db.execute(
            "SELECT video, row, first_page, pages, tokens FROM sections WHERE shard = ? ORDER BY row", (shard.id,)
        ).fetchall()
        if len(rows) == shard.rows:
            continue
        arrays = map_shard(folder, shard) if rows else {}
        db.execute("DELETE FROM sections WHERE shard = ?", (shard.id,))
        db.execute("DELETE FROM shards WHERE id = ?", (shard.id,))
        for video, row, first, pages, tokens in rows:
            cut = {
                name: tensor[first : first + pages] if name in PAGED_ARRAYS else tensor[row : row + 1]
                for name, tensor in arrays.items()
            }
            appender.append(shard.track, video, Section(shard.about["gallery"], cut, tokens))
        useless.append(folder / SHARDS / str(shard.id))
    return useless


def sweep(db: sqlite3.Connection, folder: Path) -> None:
    """Delete folders that no commit speaks of; inside ``Catalogue.writing``, when nobody else can be making one."""
    known = {str(shard.id) for shard in read_shards(db)}
    for place in (folder / SHARDS).glob("*"):
        if place.name not in known:
            shutil.rmtree(place, ignore_errors=True)
