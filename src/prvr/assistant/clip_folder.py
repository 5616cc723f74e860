"""Where an assistant's clips go: a folder that the person names, or a private one of limited size."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

_MOST_BYTES = 1 << 30  # of the clips in a private folder; the oldest go first


class ClipFolder:
    """A folder for clips."""

    def __init__(self, path: Path, *, private: bool = False):
        """``private``: only this user can read it, and old clips are deleted when there are too many."""
        self.path, self.private = path, private

    @staticmethod
    def of(chosen: Path | None, library: str) -> ClipFolder:
        """The folder that a person chose, or one of the library's own in the user's cache."""
        if chosen is not None:
            return ClipFolder(chosen.expanduser().resolve())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        name = hashlib.sha256(library.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return ClipFolder(cache.resolve() / "prvr" / "clips" / name, private=True)

    def make(self) -> None:
        """Create it if it is not there."""
        self.path.mkdir(0o700 if self.private else 0o777, parents=True, exist_ok=True)
        if self.private:
            self.path.chmod(0o700)

    def bound(self, newest: Path) -> None:
        """Delete the oldest clips of a private folder, and what killed cutters left, until the newest fit."""
        clips = []
        for path in self.path.iterdir() if self.private else ():
            with suppress(OSError):  # another process deletes them too
                status = path.stat()
                clips.append((path != newest, -status.st_mtime, path, status.st_size))
        total = 0
        for other, _, path, size in sorted(clips):
            total += size
            if other and total > _MOST_BYTES:
                with suppress(OSError):
                    path.unlink()
