"""Words that people attach to videos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from prvr.library.catalogue import Catalogue, read_videos


def add_tags(catalogue: Catalogue, videos: Iterable[int], tags: Sequence[str]) -> None:
    """Attach tags to videos that lack them; those they have stay."""
    wanted = set(videos)
    with catalogue.reading() as db:
        lacking = [v for v in read_videos(db) if v.id in wanted and not set(tags) <= set(v.tags)]
    if not lacking:
        return
    with catalogue.writing() as db:
        for video in lacking:
            joined = json.dumps(sorted({*video.tags, *tags}))
            db.execute("UPDATE videos SET tags = ? WHERE id = ?", (joined, video.id))
