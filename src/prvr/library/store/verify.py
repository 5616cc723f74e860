"""Count what a library holds, and check that nothing is damaged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import NEW, SHARDS_FOLDER, Shard, damaged_message, read_shards, short_message
from prvr.library.store.catalogue import Catalogue, read_videos
from prvr.library.store.model import ModelRecord, model_problem
from prvr.media import VideoFile
from prvr.scoring import map_array

_BLOCK = 1 << 14  # rows or pages of an array that are read together


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
    """Check that every video has sections, every section lies in its shard, and every array is complete and finite."""
    found = Verification()
    if model is not None and (wrong := model_problem(model, folder / model.folder)) is not None:
        found.problems.append(wrong)
    with catalogue.reading() as db:
        try:
            (verdict,) = db.execute("PRAGMA integrity_check").fetchone()
        except LibraryError as problem:
            verdict = str(problem)
        if verdict != "ok":
            found.problems.append(f"the catalogue is damaged ({verdict}): restore it from a copy")
        videos = read_videos(db)
        shards = {shard.id: shard for shard in read_shards(db)}
        sections = db.execute("SELECT video, shard, row, first_page, pages, tokens FROM sections").fetchall()
        paths = {video.id: video.path for video in videos}
        for shard in shards.values():
            for name in shard.about["arrays"]:
                path = folder / SHARDS_FOLDER / str(shard.id) / f"{name}.bin"
                size = path.stat().st_size if path.is_file() else 0
                if size < shard.bytes(name):
                    found.problems.append(short_message(path, size, shard.bytes(name)))
                elif not _is_valid(path, shard, name):
                    found.problems.append(damaged_message(path))
    indexed = set()
    for video, shard_id, row, first, pages, _ in sections:
        indexed.add(video)
        there = shards.get(shard_id)
        if video not in paths:
            found.problems.append(f"row {row} of shard {shard_id} belongs to no video: add its files again")
        if there is None or row >= there.rows or first + pages > there.pages:
            found.problems.append(f"{paths.get(video)}: its vectors are not where the catalogue says; add it again")
    for video in videos:
        found.checked += 1
        if video.state == "ok" and video.id not in indexed:
            found.problems.append(f"{video.path}: it has no vectors in the library; remove it and add it again")
        if not video.path.exists():
            found.missing.append(video.path)
    return found


def _is_valid(path: Path, shard: Shard, name: str) -> bool:
    """Whether an array holds valid numbers. It is read block by block."""
    array = map_array(path, shard.described(name), growing=True)
    if name == "pages":
        return shard.counts_with(array)
    starts = range(0, len(array), _BLOCK) if array.dtype.kind == "f" else ()
    return all(bool(np.isfinite(array[start : start + _BLOCK]).all()) for start in starts)
