"""Changing a published library: in a local copy, from which it is published again and again and at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prvr.files import Busy
from prvr.library import Library
from prvr.library.errors import LibraryError
from prvr.library.store.catalogue import Catalogue, generation
from prvr.library.store.commit import disk_problem
from prvr.library.store.settings import FILE
from prvr.objects.copies import Copy, bring_newest
from prvr.objects.lease import Lease
from prvr.objects.manifest import Manifest, manifest_names
from prvr.objects.publishing import garbage, upload
from prvr.objects.store import Store, StoreError, open_store

EVERY = 30.0  # seconds between publishings while work goes on
_SWEEP = 32  # publishings after which old states are tidied away; always at the end
_TRIES = 5
_FAILURES = 3  # publishings in a row after which work stops


class WorkingCopy:
    """A library at an address, and the right to change it. ``Library.open(copy.folder)`` changes it; ``publish`` tells
    the world, by itself every half minute and at the end of the block."""

    def __init__(self, store: Store, copy: Copy, lease: Lease, manifest: Manifest | None):
        self.store, self.copy, self.lease, self.manifest = store, copy, lease, manifest
        self.published = manifest.catalogue if manifest is not None else -1  # the catalogue's generation
        self._sent: Manifest | None = None  # of which it is not known whether it arrived
        self._lock = threading.Lock()
        self._failures: list[LibraryError | OSError] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._now_and_then, name="prvr-publish", daemon=True)

    @property
    def address(self) -> str:
        return self.store.address

    @property
    def folder(self) -> Path:
        return self.copy.folder

    def open_or_create(self, **settings: Any) -> Library:
        """The library; where there is none yet it is made, and published while it is empty: others see its settings."""
        if (self.folder / FILE).exists():
            return Library.open(self.folder)
        library = Library.create(self.folder, **settings)
        self.publish()
        return library

    def generation(self) -> int:
        """The catalogue's, here."""
        with Catalogue(self.folder).reading() as db:
            return generation(db)

    def publish(self) -> None:
        """Make the copy as it is now the newest state at the address; nothing happens where it is that already."""
        with self._lock:
            if self._sent is not None and manifest_names(self.store)[-1:] == [self._sent.name]:
                self._rest_on(self._sent)  # storage had taken it before the answer was lost
            made = self._upload()
            if self.manifest is None or made.files != self.manifest.files:
                self.lease.check()
                self._require_newest(self.manifest)
                self._sent = made
                self.store.put(made.name, made.text.encode())
                self._require_newest(made)
                self._rest_on(made)
                if made.generation % _SWEEP == 0:
                    self._sweep()
            self.published = made.catalogue

    def _rest_on(self, made: Manifest) -> None:
        self.manifest, self._sent = made, None
        self.copy.rests_on(made.name, made.files)

    def _upload(self) -> Manifest:
        for _ in range(_TRIES):
            try:
                return upload(self.store, self.folder, self.manifest, self.copy.id)
            except FileNotFoundError:  # videos were removed meanwhile
                continue
            except OSError as problem:
                raise disk_problem(self.folder, problem) from problem
        raise StoreError(f"{self.folder} changes too fast to be published: run it again")

    def _require_newest(self, expected: Manifest | None) -> None:
        """Storage cannot write on a condition: see before and after whether somebody else published; take ours back."""
        names = manifest_names(self.store)
        mine = expected.name if expected is not None else None
        if (names[-1] if names else None) == mine and not _rivals(names, mine):
            return
        if expected is not None and expected is not self.manifest:
            self.store.delete([expected.name])
        raise StoreError(
            f"somebody else published {self.address} meanwhile: their state stays, and what was added here is added "
            "again when you run this again"
        )

    def check(self) -> None:
        """Stop work that can no longer be published."""
        if len(self._failures) >= _FAILURES:
            raise self._failures[-1]

    def _now_and_then(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                if (self.folder / FILE).exists() and self.generation() != self.published:
                    self.publish()
                self._failures.clear()
            except (LibraryError, OSError) as problem:  # perhaps it works next time; ``check`` says so if it does not
                self._failures.append(problem)

    def _sweep(self) -> None:
        useless = garbage(self.store)
        self.lease.check()
        self.store.delete(useless)

    def start(self) -> None:
        if self.lease.found is not None:  # left by somebody who was killed, with uploads that no manifest names
            self._sweep()
        self._thread.start()

    def close(self) -> None:
        """Publish what was committed, and tidy up."""
        self._ended.set()
        self._thread.join()
        if (self.folder / FILE).exists():
            self.publish()
            self._sweep()


def _rivals(names: list[str], mine: str | None) -> bool:
    return mine is not None and sum(name.partition("-")[0] == mine.partition("-")[0] for name in names) > 1


def _require_there(store: Store, copy: Copy) -> None:
    """A library that is gone is more likely a disk that is not mounted than one that should begin anew."""
    if copy.base is not None and not manifest_names(store):
        raise StoreError(
            f"nothing is published at {copy.address} any more, but this machine holds a copy of what was: see that the "
            f"address is right and its disk mounted, or delete {copy.home} to begin anew"
        )


@contextmanager
def working_copy(address: str, said: Callable[[str], None] = lambda _: None) -> Iterator[WorkingCopy]:
    """Hold a published library for changing; a second process is refused. An interrupted block publishes what it
    finished; a killed one is taken up again from the last published state, or from this machine's copy of it."""
    store, copy = open_store(address), Copy.of(address)
    with ExitStack() as stack:
        try:
            stack.enter_context(copy.writing())
        except Busy as busy:
            raise StoreError(f"{busy.holder or 'another process'} changes {address}: wait until it is done") from None
        with copy.fetching():
            copy = Copy.of(address)
            copy.rests_on(copy.base, copy.files)  # its id outlives a kill: the same copy takes its own lease up again
        _require_there(store, copy)  # before anything is written there
        lease = stack.enter_context(Lease(store, copy.id, said))
        with copy.fetching():
            manifest = bring_newest(store, copy)
            if manifest is None:
                copy.forget()
        working = WorkingCopy(store, copy, lease, manifest)
        working.start()
        try:
            yield working
        except BaseException:
            try:
                working.close()
            except LibraryError as problem:
                said(str(problem))
            raise
        working.close()
