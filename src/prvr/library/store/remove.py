"""Taking videos out of a library, and the space that they took."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import compact, sweep
from prvr.library.store.catalogue import Catalogue, Video, drop_video, read_videos
from prvr.library.store.commit import disk_problem


def remove_videos(catalogue: Catalogue, named: Sequence[Path], *, missing: bool) -> list[Video]:
    """Files, all files in folders, or all whose files are ``missing``."""
    with catalogue.writing() as db:
        known = read_videos(db)
        gone = [video for video in known if missing and not video.path.exists()]
        for path in named:
            found = [video for video in known if video.path.is_relative_to(path)]
            if not found:
                raise LibraryError(f"{path} is not in the library: `prvr library list` shows what is")
            gone += found
        gone = list({video.id: video for video in gone}.values())
        for video in gone:
            drop_video(db, video.id)
    return gone


def free_space(catalogue: Catalogue, folder: Path) -> None:
    """Of what was removed or replaced."""
    with catalogue.reading() as db:
        dead = db.execute(
            "SELECT 1 FROM shards s WHERE s.rows != (SELECT COUNT(*) FROM sections WHERE shard = s.id)"
        ).fetchone()
    if dead is None:
        return
    try:
        with catalogue.writing() as db:
            useless = compact(db, folder)
        for place in useless:
            shutil.rmtree(place, ignore_errors=True)
        with catalogue.writing() as db:
            sweep(db, folder)
    except OSError as problem:
        raise disk_problem(folder, problem) from problem
