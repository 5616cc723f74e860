"""A library in a folder on this machine: ``library.json``, ``catalogue.sqlite`` and ``shards/``."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from prvr.library.search.candidate_build import build_indexes
from prvr.library.search.candidates import INDEX_FOLDER, IndexSettings, OpenIndexes, TrackCandidates
from prvr.library.store.background import Floats
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import Catalogue, Video, read_generation, read_lines, read_videos, rename_video
from prvr.library.store.claims import Claim, claim, sweep_claims
from prvr.library.store.commit import Committer, commit_videos, disk_error
from prvr.library.store.compact import sweep
from prvr.library.store.edit import add_tags, change_tags, free_space, remove_videos
from prvr.library.store.listing import (
    LibrarySummary,
    ListRequest,
    VideoList,
    inner_folders,
    read_list,
    summarise_catalogue,
)
from prvr.library.store.model import restore_model
from prvr.library.store.rebuild import FolderRebuild, abandon_rebuild
from prvr.library.store.repair import add_checksums, mend_catalogue
from prvr.library.store.seals import broken_among, require_whole
from prvr.library.store.settings import LibraryRecord, keep_record, sweep_leftovers
from prvr.library.store.shard_files import MEMORY
from prvr.library.store.snapshot import QueryProjection, Snapshot, take_snapshot
from prvr.library.store.verify import LibraryStatus, Verification, library_status, verify_library
from prvr.library.store.words import ScratchWords
from prvr.library.stores import Store
from prvr.media import TimedLine, VideoFile

_KEPT_FOLDERS = 1000  # whose inner folders are kept in memory


class FolderStore(Store):
    """Keeps a library in a folder. Any number of threads and processes may use it at the same time."""

    def __init__(self, folder: Path, record: LibraryRecord):
        self.folder = self.scratch = folder
        self.activity_folder = folder / "activity"
        self.address, self.record = str(folder), record
        _ = MEMORY.most  # refuses a wrong setting
        self.catalogue = Catalogue(folder)
        self._indexes = OpenIndexes(folder)
        self._summary: tuple[int, LibrarySummary] | None = None  # generation, and what was counted in it
        self._compared: tuple[int, set[int]] = (-1, set())  # generation, and videos whose checksums were right in it
        self._inner: tuple[int, dict[VideoFile, dict[str, int]]] = (-1, {})  # generation, and folders in folders

    @property
    def writable(self) -> bool:  # type: ignore[override]
        return self.catalogue.writable

    def model_folder(self) -> Path:
        assert self.record.model is not None
        return self.folder / self.record.model.folder

    def videos(self, state: str | None = None) -> list[Video]:
        with self.catalogue.reading() as db:
            return read_videos(db) if state is None else read_videos(db, "state = ?", (state,))

    def find(self, *, path: VideoFile | None = None, digest: str | None = None) -> list[Video]:
        with self.catalogue.reading() as db:
            if path is not None:
                return read_videos(db, "path = ?", (str(path),))
            return read_videos(db, "digest = ?", (digest,))

    def video(self, number: int) -> Video | None:
        with self.catalogue.reading() as db:
            return next(iter(read_videos(db, "id = ?", (number,))), None)

    def listing(self, request: ListRequest) -> VideoList:
        with self.catalogue.reading() as db:
            return read_list(db, request)

    def folders(self, folder: VideoFile) -> dict[str, int]:
        with self.catalogue.reading() as db:
            generation, (counted, known) = read_generation(db), self._inner
            if counted != generation or len(known) >= _KEPT_FOLDERS:
                known = {}
                self._inner = (generation, known)
            found = known.get(folder)
            if found is None:
                found = inner_folders(db, folder)
                if found:  # anybody may ask for folders that do not exist
                    known[folder] = found
            return dict(found)

    def prepare(self) -> None:
        MEMORY.eager = True

    def changed_rows(self, snapshot: Snapshot, videos: Iterable[int]) -> set[int]:
        with self.catalogue.reading() as db:
            generation, (compared, right) = read_generation(db), self._compared
            if compared != generation:
                right = set()
                self._compared = (generation, right)
            new = {*videos} - right
            broken = broken_among(db, new)
            right |= new - broken
            return broken - snapshot.damaged

    def summary(self) -> LibrarySummary:
        with self.catalogue.reading() as db:
            generation, known = read_generation(db), self._summary
            if known is None or known[0] != generation:
                known = self._summary = (generation, summarise_catalogue(db))
            return known[1]

    def lines(self, video: int, start: float = 0.0, end: float = math.inf) -> list[TimedLine]:
        with self.catalogue.reading() as db:
            return read_lines(db, video, start, end)

    @cached_property
    def _scratch_words(self) -> ScratchWords:
        return ScratchWords()

    def words(self, snapshot: Snapshot) -> AbstractContextManager[sqlite3.Connection]:
        if self.catalogue.upgrade():
            return self.catalogue.reading()
        return self._scratch_words.holding(  # an older version wrote the library, and this process may not change it
            snapshot.generation,
            lambda: {number: (str(video.path), video.tags, video) for number, video in snapshot.videos.items()},
            lambda numbers: [(number, self.lines(number)) for number in numbers],
        )

    def snapshot(self, previous: Snapshot | None, projection: QueryProjection) -> Snapshot:
        return take_snapshot(self.catalogue, self.folder, previous, projection, self.record)

    def following(self, record: LibraryRecord) -> FolderStore:
        return FolderStore(self.folder, record)

    def status(self) -> LibraryStatus:
        return library_status(self.folder, self.catalogue)

    def verify(self) -> Verification:
        return verify_library(self.folder, self.catalogue, self.record.model)

    def claim(self, path: VideoFile, *, wait: bool) -> Claim | None:
        return claim(self.folder, path, wait=wait)

    def commit(self, videos: Sequence[IndexedVideo]) -> None:
        commit_videos(self.catalogue, self.folder, videos, self.record)

    def committer(self, committed: Callable[[IndexedVideo], None]) -> Committer[IndexedVideo]:
        try:
            with self.catalogue.writing(visible=False) as db:
                keep_record(db, self.folder, self.record)
                sweep(db, self.folder)
            sweep_leftovers(self.folder)
            sweep_claims(self.folder)
        except OSError as problem:
            raise disk_error(self.folder, problem) from problem

        def write(videos: list[IndexedVideo]) -> None:
            if videos:
                self.commit(videos)
            for video in videos:
                committed(video)

        return Committer(write)

    def rename(self, video: Video, path: VideoFile, mtime: int) -> None:
        with self.catalogue.writing() as db:
            if read_videos(db, "id = ? AND path = ?", (video.id, str(video.path))):
                require_whole(db, [video.id])
                rename_video(db, video.id, path, mtime)

    def add_tags(self, videos: Iterable[int], tags: Sequence[str]) -> None:
        add_tags(self.catalogue, videos, tags)

    def change_tags(self, video: int, add: Sequence[str], remove: Sequence[str]) -> None:
        change_tags(self.catalogue, video, add, remove)

    def remove(self, paths: Sequence[VideoFile], *, missing: bool) -> list[Video]:
        return remove_videos(self.catalogue, self.folder, paths, missing=missing)

    def clean(self) -> None:
        free_space(self.catalogue, self.folder)

    def mend(self) -> list[str]:
        done = mend_catalogue(self.folder, self.catalogue, self.record)
        return done + ([] if self.record.model is None else restore_model(self.record.model, self.folder))

    def add_checksums(self, damaged: set[int]) -> int:
        return add_checksums(self.folder, self.catalogue, damaged)

    def rebuild(self, record: LibraryRecord) -> FolderRebuild:
        return FolderRebuild(self.catalogue, self.folder, self.record, record)

    def abandon_rebuild(self) -> bool:
        return abandon_rebuild(self.catalogue, self.folder)

    def index(
        self,
        snapshot: Snapshot,
        backgrounds: Mapping[str, Floats],
        settings: IndexSettings,
        report: Callable[[str], None],
    ) -> list[str]:
        return list(build_indexes(self.folder, snapshot, backgrounds, settings, report))

    def candidates(self, snapshot: Snapshot) -> Mapping[str, TrackCandidates]:
        return self._indexes.beside(snapshot)

    def has_index(self) -> bool:
        return any((self.folder / INDEX_FOLDER).glob("*.json"))

    def drop_index(self) -> None:
        shutil.rmtree(self.folder / INDEX_FOLDER, ignore_errors=True)
