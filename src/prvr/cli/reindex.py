"""``prvr library reindex``: another encoder, rate or choice of frames for a library that exists."""

from __future__ import annotations

from dataclasses import dataclass, field

from prvr.cli.console import format_time
from prvr.cli.libraries import LibraryPath, default_library, print_limits
from prvr.cli.progress import encoding_progress
from prvr.lake import open_library
from prvr.media import StorageError
from prvr.terminal import Console


@dataclass(frozen=True)
class Reindex:
    """Encode all videos of a library anew, with another encoder or at another rate.

    `prvr library reindex --encoder siglip2` builds the new vectors beside the old ones. The library answers with the
    old ones until all videos are done; then one step replaces them. Tags, numbers and subtitles stay. You can interrupt
    it: the same command continues. To give it up, name the encoder and rate that the library has. Running servers
    follow by themselves.
    """

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    encoder: str | None = None
    """a name that `prvr prepare` has fetched, a folder, or plain [the library's]"""
    rate: float | None = None
    """frames per second to encode [the library's]"""
    repeats: float | None = None
    """how much a frame may differ from the last encoded one without being encoded; 0: encode all [the library's]"""

    def run(self) -> int:
        lib, console = open_library(self.library), Console(highlight=False, soft_wrap=True)
        with encoding_progress() as (beside, show):
            try:
                report = lib.reindex(encoder=self.encoder, rate=self.rate, repeats=self.repeats, progress=show)
            except (KeyboardInterrupt, StorageError):
                beside.print("stopped; the old vectors stay in use, and the same command continues from here")
                raise
        vectors = f"encoder {lib.settings.encoder}, {lib.settings.rate:g} frames per second"
        if report.record is None:
            console.print(f"nothing to do: {self.library} has these vectors already ({vectors})")
            if report.abandoned:
                console.print("the unfinished vectors of an interrupted reindex were deleted")
            return 0
        console.print(
            f"{report.videos} video{'' if report.videos == 1 else 's'} encoded anew in {format_time(report.elapsed)}: "
            f"{self.library} ({vectors})",
        )
        if report.index_dropped:
            console.print("the index for approximate searches was of the old vectors and is gone: prvr library index")
        print_limits(lib)
        return 0
