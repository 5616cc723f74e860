"""One watcher for each library and folder; and what the last one left behind if it was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.library.activity import take_killed_watchers
from prvr.library.errors import LibraryError
from prvr.library.watch_folder import WatchedFolder

if TYPE_CHECKING:
    from prvr.library.library import Library


def claim_folders(library: Library, folders: Sequence[WatchedFolder], held: ExitStack) -> None:
    """Become the only watcher of these folders, and of those above and below them, until ``held`` is closed.

    Raises:
        LibraryError: another process is there first.
    """
    own = {folder.path for folder in folders}
    for path in own:
        held.callback(_claim(library, path))
    for activity in library.activities():
        for path in map(Path, activity.folders if activity.what == "watch" else ()):
            if path not in own and any(path in each.parents or each in path.parents for each in own):
                _claim(library, path)()  # it can be claimed if its watcher was killed


def crashed_files(library: Library, folders: Sequence[WatchedFolder]) -> set[Path]:
    """The file at which the last watcher of these folders was killed. Called when the folders are claimed."""
    killed = take_killed_watchers(library.store.activity_folder, [str(folder.path) for folder in folders])
    return {Path(each.file) for each in killed if each.file is not None}


def _claim(library: Library, path: Path) -> Callable[[], None]:
    """Claim a folder as if it were a file to index; returns what releases it."""
    claim = library.store.claim(path, wait=False)
    if claim is not None:
        return claim.release
    by = [each for each in library.activities() if each.what == "watch" and str(path) in each.folders]
    who = f"process {by[0].process} on {by[0].machine}" if by else "another process"
    raise LibraryError(f"{path} is watched for {library.address} by {who} already: stop that one first")
