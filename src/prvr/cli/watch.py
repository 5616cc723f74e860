"""``prvr library watch``: keep a library in step with folders."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.text import Text

from prvr.cli.console import shown_name
from prvr.cli.libraries import GivenSettings, LibraryPath, default_library, open_or_create, print_limits
from prvr.cli.progress import encoding_progress
from prvr.lake import library_exists
from prvr.library import AddProgress, FolderWatcher, LibrarySettings, WatchEvent, WatchOptions, watched_folders
from prvr.terminal import Console

_COLOURS = {"failed": "yellow", "waiting": "yellow", "problem": "red"}


@dataclass(frozen=True)
class Watch:
    """Watch folders: add new videos, index changed ones again, and forget those whose files are gone.

    `prvr library watch FILMS` runs until Ctrl-C, and creates the library if there is none. At its start it compares the
    folders with the library, so it finds what happened while it did not run. A file is indexed when it is complete: it
    must stay the same for --settle seconds, and no program may have it open to write. Moved and renamed files are
    recognised. If a folder is gone or empty where it was not, its disk is taken to be away: its videos stay, and
    the watcher waits. Files that could not be read are tried again when they change. Needs pip install "prvr[watch]".
    """

    folders: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """folders to watch, with everything in them; hidden files and folders are left out"""
    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    tags: tuple[str, ...] = ()
    """words to attach to videos that it adds, for `prvr search --tags`"""
    speech: Annotated[str | None, tyro.conf.arg(metavar="MODEL")] = None
    """write down what is said in new videos without subtitles, as for `prvr library add`"""
    options: Annotated[WatchOptions, tyro.conf.arg(name="")] = field(default_factory=WatchOptions)
    settings: Annotated[LibrarySettings, tyro.conf.arg(name="")] = field(default_factory=LibrarySettings)
    given: GivenSettings = ()

    def run(self) -> int:
        watched_folders(self.folders, must_exist=not library_exists(self.library))  # before a library is created
        lib, printer = open_or_create(self.library, self.settings, self.given), _Printer()
        watcher = FolderWatcher(
            lib,
            self.folders,
            self.options,
            tags=self.tags,
            speech=self.speech,
            report=printer.report,
            progress=printer.progress,
        )
        names = ", ".join(str(folder.path) for folder in watcher.folders)
        try:
            watcher.run(started=lambda: printer.line(f"watching {names} for {self.library}; Ctrl-C stops it"))
        except KeyboardInterrupt:
            printer.stop_bar()
            printer.line("stopped; what was indexed is kept, and the same command continues from here")
        finally:
            printer.stop_bar()
        print_limits(lib)
        return 0


class _Printer:
    """Prints one line for each event, and a bar while files are indexed."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._bar = ExitStack()
        self._show: Callable[[AddProgress], None] | None = None

    def line(self, text: str | Text) -> None:
        self._console.print(text)

    def report(self, event: WatchEvent) -> None:
        if event.kind in ("idle", "problem"):
            self.stop_bar()
        if event.kind == "idle":
            return
        said = (
            event.text if event.path is None else f"{shown_name(event.path)}{f': {event.text}' if event.text else ''}"
        )
        self.line(Text.assemble((event.kind, _COLOURS.get(event.kind, "green")), f" {said}"))

    def progress(self, now: AddProgress) -> None:
        if self._show is None:
            _, self._show = self._bar.enter_context(encoding_progress())
        self._show(now)

    def stop_bar(self) -> None:
        self._show = None
        self._bar.close()
