"""Write indexed videos to the library, in a thread of its own while the next video is decoded."""

from __future__ import annotations

import errno
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import Appender
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import Catalogue, put_video
from prvr.library.store.claims import HeldClaim
from prvr.library.store.settings import LibraryRecord, kept_record

_QUEUED = 4  # videos that may wait for the disk
_Item_contra = TypeVar("_Item_contra", contravariant=True)


def commit_videos(catalogue: Catalogue, folder: Path, videos: Sequence[IndexedVideo], record: LibraryRecord) -> None:
    """Make videos part of the library: all of them, or none. ``record`` says how their vectors were made."""
    try:
        with catalogue.writing() as db, Appender(db, folder) as appender:
            require_current(db, folder, record)
            for indexed in videos:
                number = put_video(db, indexed.video)
                for track, sections in indexed.tracks.items():
                    for section in sections:
                        appender.append(track, number, section)
                rows = [(number, line.start, line.end, line.text) for line in indexed.lines]
                db.executemany("INSERT INTO lines (video, start, end, text) VALUES (?, ?, ?, ?)", rows)
    except OSError as problem:
        raise disk_error(folder, problem) from problem


def require_current(db: sqlite3.Connection, folder: Path, record: LibraryRecord) -> None:
    """Refuse vectors that are not of the kind that the library holds now."""
    if (kept_record(db, folder) or record).recipes != record.recipes:
        raise LibraryError(f"{folder} was reindexed with another encoder meanwhile: run the command again")


def disk_error(folder: Path | str, problem: OSError) -> LibraryError:
    """The error for a disk that refused to be written."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return LibraryError(
            f"the disk of {folder} is full: free some space and run the command again. What was added is kept."
        )
    if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return LibraryError(f"{folder}: {problem.strerror}: this user can search the library, but not change it")
    return LibraryError(f"{folder} could not be written: {problem.strerror or problem}")


class Committer(Generic[_Item_contra]):
    """A thread that takes indexed videos while the next ones are decoded. Several small videos that wait go together.

    ``put`` hands a video over, ``close`` waits until everything is committed. Both raise what went wrong in the thread.
    """

    def __init__(
        self,
        write: Callable[[list[_Item_contra]], None],
        finish: Callable[[], None] = lambda: None,
        every: float | None = None,
    ):
        """The thread calls ``write`` and, at the end, ``finish``.

        Args:
            write: takes the videos that wait; with ``every``, also none of them after so many seconds.
            finish: commits what ``write`` has not committed yet.
            every: seconds.
        """
        self.write, self.finish, self.every = write, finish, every
        self.queue: queue.Queue[tuple[_Item_contra, HeldClaim | None] | None] = queue.Queue(_QUEUED)
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._work, name="prvr-commit", daemon=True)
        self.thread.start()

    def put(self, item: _Item_contra, claim: HeldClaim | None = None) -> None:
        """Hand over a video and the claim on its file, which is released when it is written."""
        self.queue.put((item, claim))  # the thread empties the queue even after a problem, so this never hangs
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        self.queue.put(None)
        self.thread.join()
        if self.problem is not None:
            raise self.problem

    def _work(self) -> None:
        ending = False
        while not ending:
            items, ending = self._waiting()
            try:
                if self.problem is None:
                    self.write([item for item, _ in items])
                    if ending:
                        self.finish()
            except BaseException as problem:  # raised again by put or close
                self.problem = problem
            finally:
                for _, claim in items:
                    if claim is not None:
                        claim.release()

    def _waiting(self) -> tuple[list[tuple[_Item_contra, HeldClaim | None]], bool]:
        """Everything in the queue, and whether that was the last."""
        items: list[tuple[_Item_contra, HeldClaim | None]] = []
        try:
            item = self.queue.get(timeout=self.every)
            while item is not None:
                items.append(item)
                item = self.queue.get_nowait()
        except queue.Empty:
            return items, False
        return items, True
