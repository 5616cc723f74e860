"""A library as Lance tables, which many machines can read and change at the same time.

``settings`` holds ``library.json`` and the files of a trained model, ``videos`` a row for each file, ``frames`` and
``text`` the sections. The table ``videos`` decides what the library holds; see ``rows.py``, and ``videos.py`` for how
it changes. Sections are only ever appended before, and deleted after, the row that names them.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.lake.cleaning import clean_table, drop_sections, forget_replaced
from prvr.lake.index import LakeCandidates, LakeIndex, build_index, open_candidates
from prvr.lake.lines import lake_lines, lake_words
from prvr.lake.listing import VideoCounts, lake_folders, lake_list
from prvr.lake.newest import NewestVersion
from prvr.lake.reading import TRACKS, LakeSnapshot, quoted, read_snapshot
from prvr.lake.rows import HEAD, VIDEO_COLUMNS, WrittenVideo, read_video
from prvr.lake.sections import ValueCache
from prvr.lake.settings import SETTINGS, VIDEOS, fetch_model, moved_to, newest_place, read_lake_record
from prvr.lake.tables import LakeError, Table, explained
from prvr.lake.verify import lake_status, verify_lake
from prvr.lake.videos import REINDEXED, RowEdit, VideoChange, accept_written, change_videos, edit_rows
from prvr.lake.writer import COMMIT_SECONDS, SectionWriter, TimedWriter, WrittenFiles
from prvr.library import (
    Committer,
    HeldClaim,
    IndexedVideo,
    IndexSettings,
    LibraryError,
    LibraryRecord,
    LibraryStatus,
    LibrarySummary,
    ListRequest,
    QueryProjection,
    Rebuild,
    ScratchWords,
    Snapshot,
    Store,
    Verification,
    Video,
    VideoList,
    model_problem,
)
from prvr.media import TimedLine, VideoFile, is_gone

if TYPE_CHECKING:
    from lance import LanceDataset


class _NoClaim:
    """Nothing is claimed in a lake: of two commands that index one file, the commit keeps the first."""

    def release(self) -> None:
        pass


class LakeStore(Store):
    """Keeps a library in Lance tables. Any number of threads, processes and machines may use it at the same time."""

    def __init__(self, address: str, record: LibraryRecord, place: str | None = None):
        """``place``: where the tables are, if not at the address itself; see ``newest_place``."""
        self.address, self.record = address.rstrip("/"), record
        self.place = place or self.address
        self.tables = {name: Table(self.place, name) for name in (SETTINGS, VIDEOS, *TRACKS)}
        self.cache = ValueCache()
        self._newest = NewestVersion()
        self._candidates: tuple[Snapshot | None, dict[str, LakeCandidates]] = (None, {})
        self._counts = VideoCounts(self.tables[VIDEOS])

    # -- looking ------------------------------------------------------------------------------------------------------

    def model_folder(self) -> Path:
        return fetch_model(self.place, self.record)

    def _videos(self, condition: str, columns: Sequence[str] = VIDEO_COLUMNS) -> list[dict[str, Any]]:
        table = self.tables[VIDEOS].require()
        with explained(self.address):
            rows: list[dict[str, Any]] = table.to_table(columns=list(columns), filter=condition).to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def videos(self, state: str | None = None) -> list[Video]:
        condition = f"id != {HEAD}" if state is None else f"state = {quoted(state)}"
        return [read_video(row) for row in self._videos(condition)]

    def find(self, *, path: VideoFile | None = None, digest: str | None = None) -> list[Video]:
        condition = f"path = {quoted(str(path))}" if path is not None else f"digest = {quoted(str(digest))}"
        return [read_video(row) for row in self._videos(f"id != {HEAD} AND {condition}")]

    def video(self, number: int) -> Video | None:
        searched = None if self._newest.is_due else self._newest.searched
        if searched is not None and number in searched.videos:
            return searched.videos[number]
        rows = self._videos(f"id = {int(number)} AND id != {HEAD}")
        return read_video(rows[0]) if rows else None

    def listing(self, request: ListRequest) -> VideoList:
        table = self.tables[VIDEOS].require()
        with explained(self.address):
            return lake_list(table, request)

    def folders(self, folder: VideoFile) -> dict[str, int]:
        return lake_folders(self._counts.read()[0], folder)

    def summary(self) -> LibrarySummary:
        return self._counts.read()[1]

    def lines(self, video: int, start: float = 0.0, end: float = math.inf) -> list[TimedLine]:
        searched = self._newest.searched
        table = self.tables[VIDEOS].require() if searched is None else searched.opened[0]
        with explained(self.address):
            return lake_lines(table, video, start, end)

    @cached_property
    def _words(self) -> ScratchWords:
        return ScratchWords()

    def words(self, snapshot: Snapshot) -> AbstractContextManager[sqlite3.Connection]:
        assert isinstance(snapshot, LakeSnapshot)
        return lake_words(self._words, snapshot, self.address)

    def snapshot(self, previous: Snapshot | None, projection: QueryProjection) -> Snapshot:
        return self._newest.snapshot(previous, lambda: self._read(previous, projection))

    def _read(self, previous: Snapshot | None, projection: QueryProjection) -> LakeSnapshot:
        found = read_snapshot(self.tables, previous, projection, self.cache, self.record)
        if found is previous or moved_to(found.opened[0], self.address) is None:
            return found
        place = newest_place(self.place)  # it was reindexed
        newer = LakeStore(self.address, read_lake_record(place), place)
        return read_snapshot(newer.tables, None, projection, newer.cache, newer.record)

    def following(self, record: LibraryRecord) -> LakeStore:
        return LakeStore(self.address, record, newest_place(self.place))

    def status(self) -> LibraryStatus:
        return lake_status(
            self.address, self._videos(f"id != {HEAD}", [*VIDEO_COLUMNS, "tokens", "lines"]), self.tables
        )

    def verify(self) -> Verification:
        problem = None if self.record.model is None else model_problem(self.record.model, self.model_folder())
        snapshot = read_snapshot(self.tables, None, lambda _: None, self.cache, self.record, checking=True)
        return verify_lake(snapshot, self.videos(), problem)

    # -- changing -----------------------------------------------------------------------------------------------------

    def claim(self, path: VideoFile, *, wait: bool) -> HeldClaim | None:
        return _NoClaim()

    def committer(self, committed: Callable[[IndexedVideo], None]) -> Committer[IndexedVideo | WrittenFiles]:
        writer = TimedWriter(self.place, self.commit_written, committed)
        return Committer(writer.write, writer.finish, every=COMMIT_SECONDS)

    def commit(self, videos: Sequence[IndexedVideo]) -> None:
        writer = SectionWriter(self.place)
        for video in videos:
            writer.add(video)
        self.commit_written(writer.take())

    def commit_written(self, written: WrittenFiles) -> list[WrittenVideo]:
        """Make written videos part of the library. Returns those that it did not hold yet.

        Of videos with the same path and content the first stays. Another content of a known path replaces it.
        """
        if not written.videos:
            return []
        for track, files in written.files.items():
            self.tables[track].append(files)
        latest = {str(each.video.path): each for each in written.videos}
        done = self.change(partial(accept_written, latest=latest))
        repeated = [each.part for each in written.videos if latest[str(each.video.path)] is not each]
        drop_sections(self.tables, done.unused + repeated)
        return done.accepted

    def change(self, make: Callable[[LanceDataset, int], VideoChange]) -> VideoChange:
        """Change rows of ``videos``; ``make`` gets the newest version of the table and the next free number."""
        made = change_videos(self.tables[VIDEOS], self.address, make)
        self._newest.look_again()
        return made

    def _edit(self, condition: str, edit: RowEdit, *, unless: str = "false", skip_damaged: bool = False) -> None:
        """Change the rows for which a condition holds, unless there are rows for which another one holds."""
        change = partial(edit_rows, address=self.address, condition=condition, edit=edit)
        self.change(partial(change, unless=unless, skip_damaged=skip_damaged))

    def rename(self, video: Video, path: VideoFile, mtime: int) -> None:
        known = f"id = {video.id} AND path = {quoted(str(video.path))}"
        taken = f"id != {video.id} AND path = {quoted(str(path))}"  # another process was first
        self._edit(known, lambda row: {"path": str(path), "mtime": mtime}, unless=taken)

    def add_tags(self, videos: Iterable[int], tags: Sequence[str]) -> None:
        lacking = " OR ".join(f"NOT array_has(tags, {quoted(tag)})" for tag in tags)
        numbers = ", ".join(map(str, videos))
        if numbers and lacking:
            self._edit(f"id IN ({numbers}) AND ({lacking})", lambda row: {"tags": sorted({*row["tags"], *tags})})

    def change_tags(self, video: int, add: Sequence[str], remove: Sequence[str]) -> None:
        self._edit(
            f"id = {int(video)} AND id != {HEAD}", lambda row: {"tags": sorted({*row["tags"], *add} - {*remove})}
        )

    def expect_again(self, videos: Iterable[int]) -> None:
        condition = f"id IN ({', '.join(map(str, videos))}) AND id != {HEAD}"
        self._edit(condition, lambda _: {"digest": ""}, skip_damaged=True)  # equal content would not replace others

    def remove(self, paths: Sequence[VideoFile], *, missing: bool) -> list[Video]:
        if moved_to(self.tables[VIDEOS].require(), self.address) is not None:
            raise LakeError(REINDEXED.format(self.address))
        rows = self._videos(f"id != {HEAD}", [*VIDEO_COLUMNS, "part"])
        known = [(read_video(row), row["part"]) for row in rows]
        removed = [each for each in known if missing and is_gone(each[0].path)]
        for path in paths:
            inside = [each for each in known if each[0].path.is_relative_to(path)]
            if not inside:
                raise LibraryError(f"{path} is not in the library: `prvr library list` shows what is")
            removed += inside
        parts = {video.id: part for video, part in removed}
        if parts:
            self.tables[VIDEOS].delete(f"id IN ({', '.join(map(str, parts))})")
            self._newest.look_again()
            drop_sections(self.tables, list(parts.values()))
        return list({video.id: video for video, _ in removed}.values())

    def clean(self) -> None:
        """Merge small files, add new rows to the index, and delete versions that are older than a day."""
        for name in (VIDEOS, *TRACKS):
            clean_table(self.tables[name])
        forget_replaced(self.address, self.place)

    def rebuild(self, record: LibraryRecord) -> Rebuild:
        from prvr.lake.rebuild import LakeRebuild  # which needs this class

        return LakeRebuild(self, record)

    # -- candidates ---------------------------------------------------------------------------------------------------

    def index(
        self,
        snapshot: Snapshot,
        backgrounds: Mapping[str, NDArray[np.float32]],
        settings: IndexSettings,
        report: Callable[[str], None],
    ) -> list[str]:
        found = build_index(self.tables, snapshot, backgrounds, settings, report)
        self._newest.look_again()
        return found

    def candidates(self, snapshot: Snapshot) -> Mapping[str, LakeCandidates]:
        if self._candidates[0] is not snapshot:
            self._candidates = (snapshot, open_candidates(snapshot, self.address))
        return self._candidates[1]

    def has_index(self) -> bool:
        opened = (self.tables[track].open() for track in TRACKS)
        return any(table is not None and LakeIndex.of(table) is not None for table in opened)

    def drop_index(self) -> None:
        """Nothing to do: it is a part of the tables that ``rebuild`` replaces."""
