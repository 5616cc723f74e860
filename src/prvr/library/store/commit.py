"""A thread that commits what was indexed while the next video is being decoded: many small videos share a commit."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import Appender
from prvr.library.store.catalogue import Catalogue, put_video
from prvr.library.store.claims import Claim
from prvr.library.store.pending import Indexed

_WAITING = 4  # videos indexed ahead of the disk
_Item = tuple[Indexed, Claim]


def commit(catalogue: Catalogue, folder: Path, items: list[Indexed]) -> None:
    """Make videos part of the library, all of them or none."""
    try:
        with catalogue.writing() as db, Appender(db, folder) as appender:
            for item in items:
                number = put_video(db, item.video)
                for track, sections in item.tracks.items():
                    for section in sections:
                        appender.append(track, number, section)
                rows = [(number, line.start, line.end, line.text) for line in item.lines]
                db.executemany("INSERT INTO lines (video, start, end, text) VALUES (?, ?, ?, ?)", rows)
    except OSError as problem:
        raise disk_problem(folder, problem) from problem


def disk_problem(folder: Path, problem: OSError) -> LibraryError:
    """What the disk said, as a sentence."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return LibraryError(f"the disk of {folder} is full: free some space and run it again; what was added is kept")
    if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return LibraryError(f"{folder} may be searched, but not changed, by this user ({problem.strerror})")
    return LibraryError(f"{folder} could not be written: {problem.strerror or problem}")


class Committer:
    """``put`` hands over; ``close`` waits until all is on disk. Either raises what went wrong."""

    def __init__(self, catalogue: Catalogue, folder: Path, done: Callable[[Indexed], None]):
        self.catalogue, self.folder, self.done = catalogue, folder, done
        self.waiting: queue.Queue[_Item | None] = queue.Queue(_WAITING)
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._work, name="prvr-commit", daemon=True)
        self.thread.start()

    def put(self, item: Indexed, claim: Claim) -> None:
        self._hand_over((item, claim))
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        self._hand_over(None)
        self.thread.join()
        if self.problem is not None:
            raise self.problem

    def _hand_over(self, item: _Item | None) -> None:
        self.waiting.put(item)  # the thread takes whatever comes until it is told to end, even after a problem

    def _work(self) -> None:
        ending = False
        while not ending:
            items: list[_Item] = []
            found = self.waiting.get()
            while found is not None:
                items.append(found)
                try:
                    found = self.waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                ending = True
            try:
                if items and self.problem is None:
                    commit(self.catalogue, self.folder, [item for item, _ in items])
                    for item, _ in items:
                        self.done(item)
            except BaseException as problem:  # travels to whoever adds
                self.problem = problem
            finally:
                for _, claim in items:
                    claim.release()
