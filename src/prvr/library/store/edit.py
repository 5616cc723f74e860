"""Change what is in a library: remove videos, free their space, attach tags."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.store.catalogue import Catalogue, Video, drop_video, read_videos
from prvr.library.store.commit import disk_error
from prvr.library.store.compact import compact, delete_shards, sweep
from prvr.library.store.listing import can_be_stored, path_range
from prvr.library.store.seals import require_whole
from prvr.media import VideoFile, is_gone


def remove_videos(catalogue: Catalogue, folder: Path, paths: Sequence[VideoFile], *, missing: bool) -> list[Video]:
    """Remove files, all files in folders, and with ``missing`` every video whose file is gone. Returns the videos.

    Their space is freed in the same step: on a full disk that has no room for the copies which this takes, nothing is
    removed.
    """
    try:
        with catalogue.writing() as db:
            removed = [video for video in read_videos(db) if is_gone(video.path)] if missing else []
            for path in paths:
                among = (str(path), *path_range(path))
                inside = read_videos(db, "path = ? OR (path >= ? AND path < ?)", among) if can_be_stored(path) else []
                if not inside:
                    raise LibraryError(f"{path} is not in the library: `prvr library list` shows what is")
                removed += inside
            removed = list({video.id: video for video in removed}.values())
            for video in removed:
                drop_video(db, video.id)
            unused = compact(db, folder)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LibraryError(
                f"the disk of {folder} is too full to remove videos, so nothing was removed: what stays is copied "
                "before the old files are deleted. Free some space, or remove more videos at once, and run the command "
                "again"
            ) from None
        raise disk_error(folder, problem) from problem
    delete_shards(unused)
    return removed


def free_space(catalogue: Catalogue, folder: Path) -> None:
    """Give back the space of videos that were removed or replaced, and of what killed processes left behind."""
    with catalogue.reading() as db:
        dead = db.execute(
            "SELECT 1 FROM shards s WHERE s.rows != (SELECT COUNT(*) FROM sections WHERE shard = s.id)"
        ).fetchone()
    if dead is None:
        return
    try:
        with catalogue.writing() as db:
            unused = compact(db, folder)
        delete_shards(unused)
        with catalogue.writing(visible=False) as db:
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
        chosen = _without_tags(db, numbers, tags)  # read again: another process may have tagged meanwhile
        require_whole(db, [video.id for video in chosen])
        for video in chosen:
            joined = json.dumps(sorted({*video.tags, *tags}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (joined, video.id))


def change_tags(catalogue: Catalogue, video: int, add: Sequence[str], remove: Sequence[str]) -> None:
    """Attach tags to a video and take others off. Nothing happens if there is no such video."""
    with catalogue.writing() as db:
        for known in read_videos(db, "id = ?", (video,)):
            require_whole(db, [video])
            tags = json.dumps(sorted({*known.tags, *add} - {*remove}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (tags, video))


def _without_tags(db: sqlite3.Connection, numbers: set[int], tags: Sequence[str]) -> list[Video]:
    known = read_videos(db, "id IN (SELECT value FROM json_each(?))", (json.dumps([*numbers]),))
    return [video for video in known if not set(tags) <= set(video.tags)]
