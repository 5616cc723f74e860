"""Errors of a library."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prvr.errors import UserError


class LibraryError(UserError):
    """A library cannot be used as asked. The message says what was found, what was expected and what to do."""


class DamagedVectors(LibraryError):
    """Vectors of some videos are not what was written. A search leaves those videos out and goes on."""

    def __init__(self, videos: Iterable[int]):
        super().__init__("Some of the library's vectors are damaged. `prvr library verify` names the files.")
        self.videos = frozenset(videos)


class TooFewFiles(LibraryError):
    """The system does not let this process open as many files as the library has. Nothing is damaged."""

    def __init__(self) -> None:
        super().__init__(
            "The library has more files than may be open at a time: raise the limit (`ulimit -n 65536` before prvr "
            "starts), and close what else has many files open."
        )


class NoCandidates(LibraryError):
    """An approximate search is not possible. ``found`` and ``remedy`` contain no paths, so the server can show them."""

    def __init__(self, library: Path | str | None, found: str, remedy: str):
        super().__init__(f"{found if library is None else f'{library} {found}'}: {remedy}")
        self.found = found if library is None else f"the library {found}"
        self.remedy = remedy
