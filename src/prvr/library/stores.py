"""Where a library keeps its videos and vectors. Adding, searching and serving do not know which kind of store it is.

There are two: a folder on this machine (``folder.py``), and Lance tables for many machines (the room ``prvr.lake``).
"""

from __future__ import annotations

import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from prvr.library.search.candidates import Candidates, IndexSettings
from prvr.library.store.background import Floats
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import Video
from prvr.library.store.claims import HeldClaim
from prvr.library.store.commit import Committer
from prvr.library.store.listing import LibrarySummary, ListRequest, VideoList
from prvr.library.store.rebuild import Rebuild
from prvr.library.store.settings import LibraryRecord
from prvr.library.store.snapshot import QueryProjection, Snapshot
from prvr.library.store.verify import LibraryStatus, Verification
from prvr.media import TimedLine, VideoFile


class Store(ABC):
    """The videos, vectors and settings of one library."""

    record: LibraryRecord
    address: str  # as a person writes it
    scratch: Path | None = None  # folder for temporary files; None: the system's
    writable: bool = True  # False: this process can search the library, but not change it
    activity_folder: Path | None = None  # where processes say what they do; None: each knows only of itself

    # -- looking ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def model_folder(self) -> Path:
        """A folder on this machine with the library's trained model."""

    @abstractmethod
    def videos(self, state: str | None = None) -> list[Video]:
        """All files that the library knows, in order of their numbers; or only those that are "ok" or "failed"."""

    @abstractmethod
    def find(self, *, path: VideoFile | None = None, digest: str | None = None) -> list[Video]:
        """Videos with this path, or with this content."""

    @abstractmethod
    def video(self, number: int) -> Video | None:
        """The video with this number, whatever its state."""

    @abstractmethod
    def listing(self, request: ListRequest) -> VideoList:
        """A part of the list of videos. Reads no more than it returns, except to count and sort."""

    @abstractmethod
    def folders(self, folder: VideoFile) -> dict[str, int]:
        """Names of the folders directly in a folder, each with the number of videos in it and below."""

    @abstractmethod
    def summary(self) -> LibrarySummary:
        """How much the library holds, and where. Computed once for each state of the library."""

    @abstractmethod
    def lines(self, video: int, start: float = 0.0, end: float = math.inf) -> list[TimedLine]:
        """The subtitle lines of a video between two times, in order."""

    @abstractmethod
    def words(self, snapshot: Snapshot) -> AbstractContextManager[sqlite3.Connection]:
        """A database with the tables of ``store/words.py``: of this snapshot, or of the library as it is now."""

    @abstractmethod
    def snapshot(self, previous: Snapshot | None, projection: QueryProjection) -> Snapshot:
        """The library as it is now. Returns ``previous`` itself if nothing has changed since."""

    def prepare(self) -> None:  # noqa: B027 (a lake needs nothing)
        """This process stays open: what it reads stays in memory, as far as there is room."""

    def changed_rows(self, snapshot: Snapshot, videos: Iterable[int]) -> set[int]:
        """Those of some videos about which the library does not say what was written, unless the snapshot knows."""
        return set()

    @abstractmethod
    def following(self, record: LibraryRecord) -> Store:
        """The same store with the record of a newer snapshot, after the library was reindexed."""

    @abstractmethod
    def status(self) -> LibraryStatus:
        """Counts and sizes."""

    @abstractmethod
    def verify(self) -> Verification:
        """Compare what is stored with what should be."""

    # -- changing -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def claim(self, path: VideoFile, *, wait: bool) -> HeldClaim | None:
        """Claim a file before it is indexed; None if another process has it and ``wait`` is not given."""

    @abstractmethod
    def commit(self, videos: Sequence[IndexedVideo]) -> None:
        """Make videos part of the library: all of them, or none."""

    @abstractmethod
    def committer(self, committed: Callable[[IndexedVideo], None]) -> Committer[IndexedVideo]:
        """What takes indexed videos. ``committed`` is called with each one that became part of the library."""

    @abstractmethod
    def rename(self, video: Video, path: VideoFile, mtime: int) -> None:
        """Note that a video has a new name or modification time, with the same content."""

    @abstractmethod
    def add_tags(self, videos: Iterable[int], tags: Sequence[str]) -> None:
        """Attach tags to videos. Tags they already have stay."""

    @abstractmethod
    def change_tags(self, video: int, add: Sequence[str], remove: Sequence[str]) -> None:
        """Attach tags to a video and take others off."""

    @abstractmethod
    def remove(self, paths: Sequence[VideoFile], *, missing: bool) -> list[Video]:
        """Remove files, all files in folders, and with ``missing`` every video whose file is gone."""

    @abstractmethod
    def clean(self) -> None:
        """Delete what killed processes and removed videos left behind."""

    def mend(self) -> list[str]:
        """Put right what can be without the video files. Returns what was done, in sentences."""
        return []

    def expect_again(self, videos: Iterable[int]) -> None:  # noqa: B027 (a folder needs nothing)
        """Prepare for videos that are indexed again although their files have not changed."""

    def add_checksums(self, damaged: set[int]) -> int:
        """Compute the checksums of videos that have none, but not of damaged ones. Returns of how many."""
        return 0

    @abstractmethod
    def rebuild(self, record: LibraryRecord) -> Rebuild:
        """Build vectors of another kind beside those that are searched, or go on with what was begun before."""

    def abandon_rebuild(self) -> bool:
        """Delete vectors of another kind that were begun and not finished. False if nothing was deleted.

        A lake keeps them: another machine may be building them.
        """
        return False

    # -- candidates ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def index(
        self,
        snapshot: Snapshot,
        backgrounds: Mapping[str, Floats],
        settings: IndexSettings,
        report: Callable[[str], None],
    ) -> list[str]:
        """Build the candidate index of every track that is large enough. Returns the names of those tracks.

        Args:
            snapshot: the library's current state.
            backgrounds: by track, the background sentences as vectors (B, D).
            settings: how candidates are found.
            report: called with a line of text before each long step.
        """

    @abstractmethod
    def candidates(self, snapshot: Snapshot) -> Mapping[str, Candidates]:
        """By track, the index beside the snapshot's sections.

        Raises:
            NoCandidates: if no index was built and the library is large enough to need one.
        """

    @abstractmethod
    def has_index(self) -> bool:
        """Whether an index was built."""

    @abstractmethod
    def drop_index(self) -> None:
        """Delete the index of every track."""
