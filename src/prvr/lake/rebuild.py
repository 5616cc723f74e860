"""Give a lake new vectors of its pictures: a second lake in a folder below, and one commit that names it.

The new lake has the numbers, tags and subtitles of the old one. Its name is a hash of how its vectors are made, so the
same command finds it again. The switch changes the head row of the old table of videos, which every other change of
that table replaces too: Lance accepts one of two, so no video is added to tables that were replaced.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prvr.lake.cleaning import drop_sections
from prvr.lake.reading import TRACKS, read_snapshot
from prvr.lake.rows import HEAD, video_row
from prvr.lake.settings import create_tables, lake_exists
from prvr.lake.store import LakeStore
from prvr.lake.videos import VideoChange, rows_in
from prvr.lake.writer import COMMIT_SECONDS, SectionWriter
from prvr.library import TEXT, IndexedVideo, LibraryRecord, SectionBuffer, Video

if TYPE_CHECKING:
    from lance import LanceDataset

_FOLLOWED = ("path", "mtime", "tags")  # what may change of a video while vectors are built


class LakeRebuild:
    """New vectors below a lake. See ``prvr.library.Rebuild``."""

    def __init__(self, old: LakeStore, target: LibraryRecord):
        kind = json.dumps([asdict(target.settings), target.recipes], sort_keys=True)
        self.name = f"rebuilt-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
        self.old, self.place = old, f"{old.place}/{self.name}"
        if not lake_exists(self.place):
            create_tables(self.place, target)
        self.new = LakeStore(self.place, target)
        self.snapshot = read_snapshot(old.tables, None, lambda _: None, old.cache, old.record)
        self.writer, self.numbers = SectionWriter(self.place), list[int]()
        self.due = time.monotonic() + COMMIT_SECONDS

    def missing(self) -> list[Video]:
        self._commit()
        done = {video.id: video.digest for video in self.new.videos("ok")}
        self.snapshot = read_snapshot(self.old.tables, self.snapshot, lambda _: None, self.old.cache, self.old.record)
        return [video for video in self.snapshot.videos.values() if done.get(video.id) != video.digest]

    def put(self, video: Video, indexed: IndexedVideo) -> None:
        indexed.lines = tuple(self.old.lines(video.id))
        said = self.snapshot.tracks.get(TEXT)
        if said is not None and said.by_video.of_video(video.id):
            indexed.tracks[TEXT] = SectionBuffer()
            for section in said.sections_of(video.id):
                indexed.tracks[TEXT].add(section)
        self.writer.add(indexed)
        self.numbers.append(video.id)
        if time.monotonic() >= self.due:
            self._commit()

    def _commit(self) -> None:
        """Make what was put part of the new lake."""
        written, numbers = self.writer.take(), self.numbers
        self.numbers, self.due = [], time.monotonic() + COMMIT_SECONDS
        if not written.videos:
            return
        for track, files in written.files.items():
            self.new.tables[track].append(files)

        def put(table: LanceDataset, next_number: int) -> VideoChange:
            rows = [video_row(each, number, ()) for each, number in zip(written.videos, numbers, strict=True)]
            return VideoChange(rows, next_number, unused=[row["part"] for row in rows_in(table, "id", numbers)])

        drop_sections(self.new.tables, self.new.change(put).unused)

    def switch(self) -> bool:
        complete = True

        def follow(table: LanceDataset, next_number: int) -> VideoChange:
            nonlocal complete
            complete = self._follow(table, next_number)
            return VideoChange([], next_number, moved=self.name if complete else None)

        self._commit()
        self.old.change(follow)
        if complete:
            for track in TRACKS:  # readers of the version before can read its files for another day
                self.old.tables[track].delete("true")
        return complete

    def _follow(self, videos: LanceDataset, next_number: int) -> bool:
        """Make the new lake hold the videos of one version of the old one. False if vectors are missing."""
        rows = {row["id"]: row for row in videos.to_table(filter=f"id != {HEAD}").to_pylist()}
        done = {video.id: video for video in self.new.videos()}
        failed = [row for row in rows.values() if row["state"] != "ok"]
        good = {number: row for number, row in rows.items() if row["state"] == "ok"}
        if any(number not in done or done[number].digest != row["digest"] for number, row in good.items()):
            return False
        gone = [video.path for number, video in done.items() if number not in rows]
        if gone:
            self.new.remove(gone, missing=False)

        def change(table: LanceDataset, _: int) -> VideoChange:
            changed = [number for number, row in good.items() if _differs(done[number], row)]
            updated = [
                row | {name: good[row["id"]][name] for name in _FOLLOWED} for row in rows_in(table, "id", changed)
            ]
            unused = [row["part"] for row in rows_in(table, "id", [row["id"] for row in failed])]
            return VideoChange([*failed, *updated], next_number, unused=unused)

        drop_sections(self.new.tables, self.new.change(change).unused)
        return True

    def close(self) -> None:
        self._commit()


def _differs(video: Video, row: Mapping[str, Any]) -> bool:
    """Whether a file was renamed or tagged since its new vectors were built."""
    return (str(video.path), video.mtime, sorted(video.tags)) != (row["path"], row["mtime"], sorted(row["tags"]))
