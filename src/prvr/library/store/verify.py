"""Count what a library holds, and check that nothing is damaged."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prvr.errors import UserError
from prvr.library.store.arrays import NEW, Shard, is_new, read_shards, short_message
from prvr.library.store.catalogue import Catalogue, read_videos
from prvr.library.store.model import ModelRecord, model_problem
from prvr.library.store.rows import (
    NO_CHECKSUM,
    SHARDS_FOLDER,
    SectionRow,
    bytes_checksum,
    pages_of_rows,
    read_rows,
    reading_shard,
)
from prvr.library.store.seals import broken_seals, has_seals, unsealed_videos
from prvr.library.store.settings import record_problem
from prvr.library.store.words import words_problem
from prvr.media import VideoFile, is_gone


@dataclass(frozen=True)
class LibraryStatus:
    """Counts and sizes."""

    videos: int
    failed: int
    seconds: float  # of video
    frames: int
    tokens: int
    lines: int  # of subtitles
    bytes: int  # on disk
    free: int | None  # bytes left on that disk; None if nobody knows

    @property
    def bytes_per_frame(self) -> float:
        return self.bytes / max(1, self.frames)


@dataclass
class Verification:
    """What is wrong with a library. ``missing`` files may only have moved; ``problems`` are damage."""

    problems: list[str] = field(default_factory=list)
    missing: list[VideoFile] = field(default_factory=list)
    checked: int = 0
    damaged: set[int] = field(default_factory=set)  # numbers of the videos that the problems concern
    altered: set[int] = field(default_factory=set)  # of these: the catalogue's facts and lines are not as written
    unsealed: int = 0  # videos without checksums: an older version added them

    @property
    def ok(self) -> bool:
        return not self.problems


def library_status(folder: Path, catalogue: Catalogue) -> LibraryStatus:
    with catalogue.reading() as db:
        videos = read_videos(db)
        tokens = db.execute(
            "SELECT COALESCE(SUM(tokens), 0) FROM sections JOIN shards ON shards.id = shard WHERE track NOT LIKE ?",
            (f"{NEW}%",),
        ).fetchone()[0]
        lines = db.execute("SELECT COUNT(*) FROM lines").fetchone()[0]
    good = [video for video in videos if video.state == "ok"]
    return LibraryStatus(
        videos=len(good),
        failed=len(videos) - len(good),
        seconds=sum(video.duration or 0.0 for video in good),
        frames=sum(video.frames for video in good),
        tokens=tokens,
        lines=lines,
        bytes=folder_bytes(folder),
        free=shutil.disk_usage(folder).free,
    )


def folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # another process is at work
            continue
    return total


def verify_library(folder: Path, catalogue: Catalogue, model: ModelRecord | None) -> Verification:
    """Read everything that is stored, and compare it with its checksums."""
    found = Verification()
    if model is not None and (wrong := model_problem(model, folder / model.folder)) is not None:
        found.problems.append(wrong)
    try:
        with catalogue.reading() as db:
            if (wrong := record_problem(db, folder)) is not None:
                found.problems.append(wrong)
            _check_catalogue(db, found)
            _check_videos(db, folder, found)
    except (UserError, sqlite3.Error) as problem:
        found.problems.append(str(problem))
    return found


def _check_catalogue(db: sqlite3.Connection, found: Verification) -> None:
    """Compare the catalogue's own structure, and its tables of words with the texts that they index."""
    verdicts = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
    if verdicts != ["ok"]:
        found.problems.append(
            f"the catalogue is damaged ({'; '.join(verdicts)}): run `prvr library repair`, or restore it from a copy"
        )
    with closing(sqlite3.connect("")) as copy:  # in a temporary file: checking the words writes
        db.backup(copy)
        if (wrong := words_problem(copy)) is not None:
            found.problems.append(f"the catalogue's words are damaged ({wrong}): run `prvr library repair`")


def _check_videos(db: sqlite3.Connection, folder: Path, found: Verification) -> None:
    """Compare what is stored of each video, and of each shard, with its checksum."""
    videos = {video.id: video for video in read_videos(db)}
    names = {number: str(video.path) for number, video in videos.items()}
    wrong: list[int] = []
    for shard in read_shards(db, wrong):
        _check_shard(db, folder, shard, names, found)
    for number in wrong:
        _blame(found, names, {row.video for row in read_rows(db, number)}, f"shard {number} is described wrongly")
    if has_seals(db):
        found.altered = {*broken_seals(db, "video")}
        _blame(found, names, found.altered, "the catalogue does not say what was written about it")
        found.unsealed = len(unsealed_videos(db))
    else:
        found.unsealed = sum(video.state == "ok" for video in videos.values())
    indexed = {number for (number,) in db.execute("SELECT DISTINCT video FROM sections")}
    _blame(found, names, {each.id for each in videos.values() if each.state == "ok"} - indexed, "it has no vectors")
    for number in sorted(indexed - videos.keys()):
        found.problems.append(f"there are vectors of a video that the catalogue does not know (number {number})")
    for video in videos.values():
        found.checked += 1
        if is_gone(video.path):
            found.missing.append(video.path)


def _check_shard(
    db: sqlite3.Connection, folder: Path, shard: Shard, names: Mapping[int, str], found: Verification
) -> None:
    rows, place = read_rows(db, shard.id), folder / SHARDS_FOLDER / str(shard.id)
    owners = {row.video for row in rows}
    try:
        pages_of_rows(shard.id, shard.rows, shard.pages, rows)
        items = {name: int(about["item"]) for name, about in shard.about["arrays"].items()}
        for name in items:
            path = place / f"{name}.bin"
            size = path.stat().st_size if path.exists() else 0
            if rows and size < shard.bytes(name):
                found.problems.append(short_message(path, size, shard.bytes(name)))
        if rows:
            with reading_shard(place, items) as read:
                owners = {row.video for row in rows if not _is_right(shard, row, read(row))}
    except UserError as problem:
        found.problems.append(str(problem))
    except (OSError, ValueError, TypeError, LookupError, OverflowError):
        pass  # then nothing of it can be read
    if any(not isinstance(video, int) for video in owners):
        found.problems.append(f"the catalogue says of vectors in {place} that they are of no video")
    what = "its vectors that are being built" if is_new(shard.track) else "its vectors"
    _blame(found, names, owners, f"{what} in {place} are damaged")


def _is_right(shard: Shard, row: SectionRow, stretches: Mapping[str, bytes]) -> bool:
    """Whether a section has its checksum; without one, whether it holds no NaN and no infinity."""
    if row.checksum != NO_CHECKSUM:
        return bytes_checksum(stretches) == row.checksum
    for name, stretch in stretches.items():
        if shard.about["arrays"][name]["dtype"] in ("float16", "float32", "float64"):
            numbers = np.frombuffer(stretch, shard.about["arrays"][name]["dtype"])
            if not np.isfinite(numbers).all():
                return False
    return True


def _blame(found: Verification, names: Mapping[int, str], videos: Iterable[int], reason: str) -> None:
    """Note that something is wrong with videos."""
    numbers = {video for video in videos if isinstance(video, int)}  # others are of no video
    for number in sorted(numbers):
        found.damaged.add(number)
        found.problems.append(f"{names.get(number, f'video {number}')}: {reason}")
