"""Write indexed videos to a lake: sections into new files of their tables, then one commit that makes them real."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prvr.lake.rows import SectionLayout, WrittenVideo, new_part, written_video
from prvr.lake.tables import LakeError, Table
from prvr.library import IndexedVideo, Section

if TYPE_CHECKING:
    from lance import FragmentMetadata

COMMIT_SECONDS = 60.0  # between two commits; a killed command loses no more than this
_FILE_BYTES = 1 << 27  # of sections in one file of a table


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
                self._bytes += sum(array.nbytes for array in section.arrays.values())
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


class TimedWriter(SectionWriter):
    """Writes sections as they come, and commits every minute and at the end."""

    def __init__(
        self,
        lake: str,
        commit: Callable[[WrittenFiles], Sequence[WrittenVideo]],
        committed: Callable[[IndexedVideo], None],
    ):
        """``commit`` makes videos part of the library; ``committed`` is called with each one that it accepted."""
        super().__init__(lake)
        self.commit, self.committed = commit, committed
        self.due = time.monotonic() + COMMIT_SECONDS

    def write(self, items: Sequence[IndexedVideo | WrittenFiles]) -> None:
        """Take indexed videos, or what other processes have written."""
        for item in items:
            if isinstance(item, WrittenFiles):
                self.written.extend(item)
            else:
                self.add(item)
        if time.monotonic() >= self.due:
            self.finish()

    def finish(self) -> None:
        for video in self.commit(self.take()):
            self.committed(IndexedVideo(video.video, repeats=video.repeats))
        self.due = time.monotonic() + COMMIT_SECONDS
