"""Count what a lake holds, and check that nothing is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prvr.lake.reading import TRACKS, LakeSnapshot
from prvr.lake.rows import HEAD, LINES_SEAL, checksum_of, has_broken_lines
from prvr.lake.sections import LakeSections, list_matrix
from prvr.lake.tables import DamagedTable, Table, explained, table_bytes
from prvr.library import DamagedVectors, Ids, LibraryStatus, Verification, Video
from prvr.media import is_gone

_TOGETHER = 64  # videos that are read together
_REMEDY = "run `prvr library repair`"


def lake_status(address: str, videos: Sequence[Mapping[str, Any]], tables: Mapping[str, Table]) -> LibraryStatus:
    """Counts and sizes, from the rows of all videos."""
    good = [row for row in videos if row["state"] == "ok"]
    size = 0
    for table in tables.values():
        opened = table.open()
        if opened is not None:
            with explained(address):
                size += table_bytes(opened)
    local = "://" not in address
    return LibraryStatus(
        videos=len(good),
        failed=len(videos) - len(good),
        seconds=sum(row["duration"] or 0.0 for row in good),
        frames=sum(row["frames"] for row in good),
        tokens=sum(row["tokens"] for row in good),
        lines=sum(len(row["lines"]) for row in good),
        bytes=size,
        free=shutil.disk_usage(Path(address)).free if local else None,
    )


def verify_lake(snapshot: LakeSnapshot, videos: Sequence[Video], model_problem: str | None) -> Verification:
    """Check that every video has all its sections, and that every section is complete and finite."""
    found = Verification(problems=[] if model_problem is None else [model_problem])
    for track in TRACKS:
        sections = snapshot.tracks.get(track)
        expected = snapshot.videos.rows[f"{track}_sections"].to_pylist()
        for video, count in zip(snapshot.videos, expected, strict=True):
            there = 0 if sections is None else len(sections.by_video.of_video(video))
            if there != count:
                found.damaged.add(video)
                found.problems.append(
                    f"{snapshot.videos[video].path}: {there} of {count} sections ({track}) are there; {_REMEDY}"
                )
        for video in [] if sections is None else _damaged(sections):
            found.damaged.add(video)
            found.problems.append(f"{snapshot.videos[video].path}: its vectors ({track}) are damaged; {_REMEDY}")
    for video, what in (*((video, "its row is") for video in snapshot.videos.broken), *_damaged_lines(snapshot)):
        found.damaged.add(video)
        name = snapshot.videos[video].path if video in snapshot.videos else f"video {video}"
        found.problems.append(f"{name}: {what} damaged; {_REMEDY}")
    for each in videos:
        found.checked += 1
        if is_gone(each.path):
            found.missing.append(each.path)
    return found


def _damaged_lines(snapshot: LakeSnapshot) -> Iterator[tuple[int, str]]:
    table = snapshot.opened[0]
    if LINES_SEAL in table.schema.names:
        rows = table.to_table(columns=["id", "lines", LINES_SEAL], filter=f"id != {HEAD}").to_pylist()
        yield from ((row["id"], "its lines are") for row in rows if has_broken_lines(row))


def _damaged(sections: LakeSections) -> list[int]:
    """Videos with sections that cannot be read, have changed since, or hold NaN or infinity. Every vector is read."""
    groups, damaged = sections.by_video, []
    for first in range(0, len(groups.videos), _TOGETHER):
        some = groups.videos[first : first + _TOGETHER]
        if not _is_whole(sections, groups.of_videos(some).numbers):
            damaged += [video for video in some.tolist() if not _is_whole(sections, np.array(groups.of_video(video)))]
    return damaged


def _is_whole(sections: LakeSections, numbers: Ids) -> bool:
    try:
        rows = sections.take(numbers, ["checksum", "background", "arrays"])
        values = [value.as_buffer() for value in rows["arrays"]]
        arrays = sections.layout.block(values, None).arrays
    except (DamagedTable, DamagedVectors):
        return False
    background = list_matrix(rows["background"])
    sums = [checksum_of(*each) for each in zip(background, values, strict=True)]
    floats = [background, *(array for array in arrays.values() if array.dtype.kind == "f")]
    finite = all(bool(np.isfinite(array).all()) for array in floats)
    return finite and sums == rows["checksum"].to_pylist()
