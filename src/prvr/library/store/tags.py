"""Words that people attach to videos."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from prvr.library.store.catalogue import Catalogue, Video, read_videos


def add_tags(catalogue: Catalogue, videos: Iterable[int], tags: Sequence[str]) -> None:
    """Attach tags to videos that lack them; those they have stay."""
    wanted = set(videos)
    with catalogue.reading() as db:
        if not _lacking(db, wanted, tags):
            return
    with catalogue.writing() as db:
        for video in _lacking(db, wanted, tags):  # read again: others may have tagged in the meantime
            joined = json.dumps(sorted({*video.tags, *tags}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (joined, video.id))


def _lacking(db: sqlite3.Connection, wanted: set[int], tags: Sequence[str]) -> list[Video]:
    return [video for video in read_videos(db) if video.id in wanted and not set(tags) <= set(video.tags)]
