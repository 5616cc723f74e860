"""Repair a damaged library: whatever `verify` finds is made again from the video files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prvr.library.ingest.add import AddProgress, AddReport
from prvr.library.store.verify import Verification
from prvr.media import VideoFile

if TYPE_CHECKING:
    from prvr.library.library import Library


@dataclass
class RepairReport:
    """What was done, and what is left."""

    done: list[str] = field(default_factory=list)  # what was put right without the video files
    added: AddReport = field(default_factory=AddReport)  # the videos that were indexed again
    gone: list[VideoFile] = field(default_factory=list)  # damaged videos whose files are not there
    sealed: int = 0  # videos that got checksums for the first time
    left: Verification = field(default_factory=Verification)  # what is still wrong


def repair_library(library: Library, progress: Callable[[AddProgress], None] | None) -> RepairReport:
    """Index exactly the damaged videos again. See ``Library.repair``."""
    report, store = RepairReport(), library.store
    report.done = store.mend()
    found = library.verify()
    if found.damaged:
        videos = [video for number in sorted(found.damaged) if (video := store.video(number)) is not None]
        there = {video.path: video.id for video in videos if video.path.exists()}
        report.gone = [video.path for video in videos if video.path not in there]
        if there:
            store.expect_again(there.values())
            adder = library.adder(progress=progress, retry=True, again=there)
            report.added = adder.run([*there])
        store.clean()
        found = library.verify()
    if found.unsealed:
        report.sealed = store.add_checksums(found.damaged)
        found = library.verify()
    report.left = found
    return report
