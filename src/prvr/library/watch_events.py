"""Changes of watched folders, as the system reports them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prvr.library.watch_folder import WatchedFolder
from prvr.media import MissingExtra


class ChangeFeed:
    """Follows folders with ``watchfiles``, also when they go and come back."""

    def __init__(self, folders: Sequence[WatchedFolder], tick: float, problem: Callable[[str], None]):
        """
        Args:
            folders: to follow.
            tick: seconds after which there is an answer though nothing has changed.
            problem: called with the reason if the system reports no changes.
        """
        _require_watchfiles()
        self.folders, self.tick, self.problem = folders, tick, problem
        self._blind = False

    def follow(self, stop: threading.Event) -> Iterator[set[Path] | None]:
        """Paths that have changed; nothing after a moment without changes; None if anything may have changed."""
        while not stop.is_set():
            present = self._present()
            if present and not self._blind:
                yield from self._reported(present, stop)
            else:
                stop.wait(self.tick)
                yield set()

    def _reported(self, present: dict[Path, object], stop: threading.Event) -> Iterator[set[Path] | None]:
        """What the system reports, until a folder has gone or come back."""
        from watchfiles import watch

        changes = watch(
            *present,
            watch_filter=None,
            stop_event=stop,
            rust_timeout=max(50, round(1000 * self.tick)),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        try:
            if next(changes, None) is not None:
                yield None  # for what changed before the folders were followed
            for found in changes:
                yield {Path(path) for _, path in found}
                if self._present() != present:
                    return
        except (OSError, RuntimeError) as problem:
            if "decode path" in str(problem):  # a name is not valid UTF-8: follow anew, which looks at everything
                stop.wait(self.tick)
            elif self._present() == present:  # no folder has gone: the limit of the system, most often
                self._blind = True
                self.problem(str(problem))
        finally:
            changes.close()

    def _present(self) -> dict[Path, object]:
        """The folders that are there, with what changes if their disks do."""
        identities = {folder.path: folder.identity for folder in self.folders}
        return {path: identity for path, identity in identities.items() if identity is not None}


def _require_watchfiles() -> None:
    try:
        import watchfiles  # noqa: F401
    except ImportError as problem:
        raise MissingExtra("watchfiles, which reports changes of folders,", "watch", problem) from problem
