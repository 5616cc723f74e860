"""``prvr library repair``: make damaged parts of a library again."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.text import Text

from prvr.cli.console import count
from prvr.cli.libraries import LibraryPath, default_library
from prvr.cli.progress import encoding_progress
from prvr.lake import open_library
from prvr.media import StorageError
from prvr.terminal import Console


@dataclass(frozen=True)
class Repair:
    """Index the videos again that `prvr library verify` finds damaged, and no others.

    Needs the video files of those videos. Settings, words and checksums are put right as well: a library of an older
    version gets its checksums. You can interrupt it and run it again.
    """

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""

    def run(self) -> int:
        lib, console = open_library(self.library), Console(highlight=False, soft_wrap=True)
        with encoding_progress() as (beside, show):
            try:
                report = lib.repair(progress=show)
            except (KeyboardInterrupt, StorageError):
                beside.print("stopped; finished videos are repaired, and the same command continues from here")
                raise
        for line in report.done:
            console.print(line)
        if report.sealed:
            console.print(f"checksums of {count(report.sealed, 'video')} were computed for the first time")
        for path, reason in report.added.failed.items():
            console.print(Text.assemble(("failed ", "yellow"), f"{path}: {reason}"))
        for path in report.gone:
            console.print(Text.assemble(("gone  ", "yellow"), f"{path}: put the file back, or remove it"))
        for path in report.untouched:
            reason = "its transcript may be damaged too, so it is left alone: remove it, then add it with --speech"
            console.print(Text.assemble(("kept  ", "yellow"), f"{path}: {reason}"))
        for problem in report.left.problems:
            console.print(Text.assemble(("wrong ", "red"), problem))
        again = len(report.added.added)
        state = "everything is complete" if report.left.ok else "some of it is still damaged"
        console.print(f"{count(again, 'video')} indexed again, {report.left.checked} files checked: {state}")
        return 0 if report.left.ok else 1
