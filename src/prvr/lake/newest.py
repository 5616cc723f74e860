"""The newest version of a lake: a process that searches looks for it now and then, and seldom waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from prvr.lake.reading import LakeSnapshot
from prvr.lake.tables import StoreAway
from prvr.library import Snapshot

CHECK_SECONDS = 2.0  # between two looks for a newer version
AWAY_SECONDS = 10.0  # the same while the storage does not answer
PATIENCE = 0.5  # seconds that a search waits for a newer version; then it searches the one before
_log = logging.getLogger("prvr.lake")


class NewestVersion:
    """The snapshot that this process searches, and when to look for a newer one."""

    def __init__(self) -> None:
        self.searched: LakeSnapshot | None = None
        self._due = 0.0  # when to look for a newer version; 0: this process has changed it, so wait for that
        self._look: Future[LakeSnapshot] | None = None  # that is under way

    @property
    def is_due(self) -> bool:
        """Whether it is time to look for a newer version."""
        return time.monotonic() >= self._due

    def look_again(self) -> None:
        """After a change: the next search must know it."""
        self._due, self._look = 0.0, None

    def snapshot(self, previous: Snapshot | None, read: Callable[[], LakeSnapshot]) -> Snapshot:
        """The newest version that ``read`` finds; ``previous`` if it is not time to look, or looking takes long."""
        if previous is not None and not self.is_due:
            return previous
        if self._look is None:
            self._look = _in_background(read)
        if previous is not None and wait([self._look], PATIENCE if self._due else None).not_done:
            return previous
        look, self._look = self._look, None
        try:
            found = look.result()
        except StoreAway as problem:
            if previous is None:
                raise
            _log.warning("%s; searching the version that was read before", problem)
            self._due = time.monotonic() + AWAY_SECONDS
            return previous
        self._due, self.searched = time.monotonic() + CHECK_SECONDS, found
        return found


def _in_background(read: Callable[[], LakeSnapshot]) -> Future[LakeSnapshot]:
    """Read a version in a thread that does not keep the process from ending."""
    future: Future[LakeSnapshot] = Future()

    def run() -> None:
        try:
            future.set_result(read())
        except BaseException as problem:  # raised by ``result``
            future.set_exception(problem)

    threading.Thread(target=run, name="prvr-look", daemon=True).start()
    return future
