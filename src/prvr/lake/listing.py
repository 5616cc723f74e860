"""List a part of a lake's videos, its folders and its tags."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from prvr.lake.reading import condition_of, quoted
from prvr.lake.rows import HEAD, VIDEO_COLUMNS, read_video
from prvr.lake.tables import Table, explained
from prvr.library import (
    MOST_FOLDERS,
    ORDER_COLUMNS,
    Filters,
    LibrarySummary,
    ListRequest,
    VideoList,
    distinct_paths,
    path_range,
)
from prvr.media import BucketPath, VideoFile, video_path

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

SUMMARY_COLUMNS = ("path", "state", "duration", "tags")


def lake_list(table: LanceDataset, request: ListRequest) -> VideoList:
    """Read one part of a list. Lance sorts by one column, and reads the rows of the part only."""
    from lance.dataset import ColumnOrdering

    tags = () if request.tag is None else (request.tag,)
    conditions = [f"id != {HEAD}", condition_of(Filters(folder=request.folder, tags=tags))]
    if request.state is not None:
        conditions.append(f"state = {quoted(request.state)}")
    condition = " AND ".join(conditions)
    column, ascending = ORDER_COLUMNS[request.order]
    order = [ColumnOrdering(name, ascending=ascending, nulls_first=False) for name in dict.fromkeys((column, "id"))]
    found = table.scanner(
        columns=list(VIDEO_COLUMNS), filter=condition, order_by=order, limit=request.limit, offset=request.offset
    ).to_table()
    return VideoList([read_video(row) for row in found.to_pylist()], table.count_rows(condition))


class VideoCounts:
    """Counts the videos once for each version of their table, however many threads ask."""

    def __init__(self, videos: Table):
        self.videos = videos
        self._counting = threading.Lock()
        self._counted: tuple[int, pa.Table, LibrarySummary] | None = None  # version, and what was counted in it

    def read(self) -> tuple[pa.Table, LibrarySummary]:
        """Rows with ``SUMMARY_COLUMNS``, and their summary."""
        with self._counting:
            table, known = self.videos.require(), self._counted
            if known is None or known[0] != table.version:
                with explained(self.videos.lake):
                    rows = table.to_table(columns=list(SUMMARY_COLUMNS), filter=f"id != {HEAD}")
                known = self._counted = (table.version, rows, lake_summary(rows))
            return known[1:]


def lake_folders(rows: pa.Table, folder: VideoFile) -> dict[str, int]:
    """Names of the folders directly in a folder, with the number of videos; ``rows`` have ``SUMMARY_COLUMNS``."""
    first = path_range(folder)[0]
    counts: Counter[str] = Counter()
    for path, state in zip(rows["path"].to_pylist(), rows["state"].to_pylist(), strict=True):
        if state == "ok" and path.startswith(first) and first[-1] in (rest := path[len(first) :]):
            counts[rest.partition(first[-1])[0]] += 1
    return dict(sorted(counts.items()))


def lake_summary(rows: pa.Table) -> LibrarySummary:
    """Count what rows with ``SUMMARY_COLUMNS`` hold."""
    import pyarrow.compute as pc

    searchable = rows.filter(pc.equal(rows["state"], "ok"))
    paths = [video_path(path) for path in searchable["path"].to_pylist()]
    everywhere = sorted(rows["path"].to_pylist())
    here = [path for path in everywhere if not isinstance(video_path(path), BucketPath)] or everywhere
    tags = Counter(tag for of_video in searchable["tags"].to_pylist() for tag in of_video)
    buckets = Counter("/".join(str(path).split("/", 3)[:3]) for path in paths if isinstance(path, BucketPath))
    folders = sorted({str(path.parent) for path in paths})
    return LibrarySummary(
        videos=len(searchable),
        failed=len(rows) - len(searchable),
        seconds=pc.sum(searchable["duration"]).as_py() or 0.0,
        tags=dict(sorted(tags.items())),
        folders=tuple(video_path(folder) for folder in folders[:MOST_FOLDERS]),
        buckets=dict(sorted(buckets.items())),
        ends=distinct_paths([*here[:1], *here[-1:]]),
    )
