"""Example searches of a library, kept for a while because finding them takes time."""

from __future__ import annotations

import threading
import time

from prvr.library import Library

_MOST = 5
_PATIENCE = 2.0  # seconds that others wait for the first examples
_KEPT = 600.0  # seconds; a library that is being added to is not tried again for each file


class Examples:
    """Sentences that the library answers well."""

    def __init__(self, library: Library):
        self.library = library
        self._lock = threading.Lock()
        self._found: tuple[float, int, list[str]] | None = None  # when, how many videos there were, and what

    def get(self) -> list[str]:
        """The examples. Others that ask while one looks for them get those of before, or soon none."""
        if not self._lock.acquire(timeout=_PATIENCE if self._found is None else 0.0):
            return [] if self._found is None else self._found[2]
        try:
            videos, now = self.library.summary().videos, time.monotonic()
            known = self._found
            if known is None or (known[1] != videos and (now - known[0] > _KEPT or known[1] < _MOST)):
                known = self._found = (now, videos, self.library.examples(_MOST))
            return known[2]
        finally:
            self._lock.release()
