"""Write indexed videos to a lake: sections into new files of their tables, then one commit that makes them real."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prvr.lake.rows import SectionLayout, WrittenVideo, new_part, written_video
from prvr.lake.tables import LakeError, Table
from prvr.library import HeldClaim, IndexedVideo, Section

if TYPE_CHECKING:
    from lance import FragmentMetadata

COMMIT_SECONDS = 60.0  # between two commits; a killed command loses no more than this
_FILE_BYTES = 1 << 27  # of sections in one file of a table
_QUEUED = 4  # videos that may wait to be written


@dataclass
class WrittenFiles:
    """Videos whose sections are in files that no commit names yet."""

    videos: list[WrittenVideo] = field(default_factory=list)
    files: dict[str, list[FragmentMetadata]] = field(default_factory=dict)  # by track

    def extend(self, other: WrittenFiles) -> None:
        self.videos += other.videos
        for track, files in other.files.items():
            self.files.setdefault(track, []).extend(files)


class SectionWriter:
    """Collects the sections of several videos and writes them as files of the lake's tables."""

    def __init__(self, lake: str):
        self.lake = lake
        self.written = WrittenFiles()
        self._waiting: dict[str, list[tuple[int, int, Section]]] = {}
        self._bytes = 0
        self._layouts: dict[str, SectionLayout] = {}

    def add(self, indexed: IndexedVideo) -> None:
        """Take an indexed video, or a file that failed."""
        part = new_part()
        for track, sections in indexed.tracks.items():
            for place, section in enumerate(sections):
                self._waiting.setdefault(track, []).append((part, place, section))
                self._bytes += sum(array.numel() * array.element_size() for array in section.arrays.values())
                if self._bytes >= _FILE_BYTES:
                    self._write()
        self.written.videos.append(written_video(indexed, part))

    def take(self) -> WrittenFiles:
        """Write what waits. Returns everything that was written since the last call."""
        self._write()
        written, self.written = self.written, WrittenFiles()
        return written

    def _write(self) -> None:
        for track, sections in self._waiting.items():
            table = Table(self.lake, track)
            if track not in self._layouts:
                self._layouts[track] = require_table(table, SectionLayout.of(sections[0][2]))
            files = table.write(self._layouts[track].rows(sections))
            self.written.files.setdefault(track, []).extend(files)
        self._waiting, self._bytes = {}, 0


def require_table(table: Table, layout: SectionLayout) -> SectionLayout:
    """Create the table of a track if there is none. Refuses sections that do not fit into an existing one."""
    found = table.open()
    if found is None:
        table.create(layout.schema().empty_table())
        found = table.open()
    assert found is not None
    if SectionLayout.from_schema(found.schema) != layout:
        raise LakeError(
            f"{table.lake} holds vectors of another shape than this version of prvr writes with its settings: use the "
            "version that created it, or create another library"
        )
    return layout


class LakeCommitter:
    """A thread that writes sections as they come, and commits every minute and at the end.

    ``put`` hands a video over, ``close`` waits until everything is committed. Both raise what went wrong in the thread.
    """

    def __init__(
        self,
        lake: str,
        commit: Callable[[WrittenFiles], Sequence[WrittenVideo]],
        committed: Callable[[IndexedVideo], None],
    ):
        """``commit`` makes videos part of the library; ``committed`` is called with each one that it accepted."""
        self.writer, self.commit, self.committed = SectionWriter(lake), commit, committed
        self.problem: BaseException | None = None
        self._queue: queue.Queue[IndexedVideo | WrittenFiles | None] = queue.Queue(_QUEUED)
        self._thread = threading.Thread(target=self._work, name="prvr-lake", daemon=True)
        self._thread.start()

    def put(self, video: IndexedVideo, claim: HeldClaim) -> None:
        claim.release()
        self._queue.put(video)  # the thread empties the queue even after a problem, so this never hangs
        if self.problem is not None:
            raise self.problem

    def put_written(self, written: WrittenFiles) -> None:
        """Hand over videos whose sections other processes have written."""
        self._queue.put(written)
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _work(self) -> None:
        ending, due = False, time.monotonic() + COMMIT_SECONDS
        while not ending:
            try:
                item: Any = self._queue.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                item = False
            ending = item is None
            try:
                if isinstance(item, WrittenFiles):
                    self.writer.written.extend(item)
                elif item and self.problem is None:
                    self.writer.add(item)
                if (ending or time.monotonic() >= due) and self.problem is None:
                    for video in self.commit(self.writer.take()):
                        self.committed(IndexedVideo(video.video))
            except BaseException as problem:  # raised again by put or close
                self.problem = problem
            if time.monotonic() >= due:
                due = time.monotonic() + COMMIT_SECONDS
