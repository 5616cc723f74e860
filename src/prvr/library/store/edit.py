"""Change what is in a library: remove videos, free their space, attach tags."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import compact, sweep
from prvr.library.store.catalogue import Catalogue, Video, drop_video, read_videos
from prvr.library.store.commit import disk_error
from prvr.library.store.listing import path_range
from prvr.media import VideoFile


def remove_videos(catalogue: Catalogue, paths: Sequence[VideoFile], *, missing: bool) -> list[Video]:
    """Remove files, all files in folders, and with ``missing`` every video whose file is gone. Returns the videos."""
    with catalogue.writing() as db:
        removed = [video for video in read_videos(db) if not video.path.exists()] if missing else []
        for path in paths:
            inside = read_videos(db, "path = ? OR (path >= ? AND path < ?)", (str(path), *path_range(path)))
            if not inside:
                raise LibraryError(f"{path} is not in the library: `prvr library list` shows what is")
            removed += inside
        removed = list({video.id: video for video in removed}.values())
        for video in removed:
            drop_video(db, video.id)
    return removed


def free_space(catalogue: Catalogue, folder: Path) -> None:
    """Give back the space of videos that were removed or replaced."""
    with catalogue.reading() as db:
        dead = db.execute(
            "SELECT 1 FROM shards s WHERE s.rows != (SELECT COUNT(*) FROM sections WHERE shard = s.id)"
        ).fetchone()
    if dead is None:
        return
    try:
        with catalogue.writing() as db:
            unused = compact(db, folder)
        for place in unused:
            shutil.rmtree(place, ignore_errors=True)
        with catalogue.writing() as db:
            sweep(db, folder)
    except OSError as problem:
        raise disk_error(folder, problem) from problem


def add_tags(catalogue: Catalogue, videos: Iterable[int], tags: Sequence[str]) -> None:
    """Attach tags to videos. Tags they already have stay."""
    numbers = set(videos)
    with catalogue.reading() as db:
        if not _without_tags(db, numbers, tags):
            return
    with catalogue.writing() as db:
        for video in _without_tags(db, numbers, tags):  # read again: another process may have tagged meanwhile
            joined = json.dumps(sorted({*video.tags, *tags}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (joined, video.id))


def change_tags(catalogue: Catalogue, video: int, add: Sequence[str], remove: Sequence[str]) -> None:
    """Attach tags to a video and take others off. Nothing happens if there is no such video."""
    with catalogue.writing() as db:
        for known in read_videos(db, "id = ?", (video,)):
            tags = json.dumps(sorted({*known.tags, *add} - {*remove}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (tags, video))


def _without_tags(db: sqlite3.Connection, numbers: set[int], tags: Sequence[str]) -> list[Video]:
    known = read_videos(db, "id IN (SELECT value FROM json_each(?))", (json.dumps([*numbers]),))
    return [video for video in known if not set(tags) <= set(video.tags)]
