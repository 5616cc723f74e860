"""What can be wrong with a library, said in a sentence."""

from __future__ import annotations

from pathlib import Path

from prvr.errors import UserError


class LibraryError(UserError):
    """A library that cannot be used as asked: what was found, what was expected, what to do."""


class NoCandidates(LibraryError):
    """An approximate search cannot be made; ``found`` and ``remedy`` name no place."""

    def __init__(self, library: Path | None, found: str, remedy: str):
        super().__init__(f"{found if library is None else f'{library} {found}'}: {remedy}")
        self.found = found if library is None else f"the library {found}"
        self.remedy = remedy
