"""Change a published library: in a local copy, which is published regularly and at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prvr.files import Busy
from prvr.library import RECORD_FILE, Catalogue, Library, LibraryError, disk_error, read_generation
from prvr.objects.copies import Copy, fetch_newest
from prvr.objects.lease import Lease
from prvr.objects.manifest import Manifest, manifest_names
from prvr.objects.publish import unused_objects, upload
from prvr.objects.store import Store, StoreError, open_object_store

EVERY = 30.0  # seconds between publishings during the work
_SWEEP = 32  # publishings after which old states are deleted; also at the end
_TRIES = 5
_FAILURES = 3  # failed publishings in a row after which the work stops


class WorkingCopy:
    """The local copy of a library at an address, with the right to change it.

    Change it with ``Library.open(copy.folder)``. It is published every half minute and at the end of the block.
    """

    def __init__(self, store: Store, copy: Copy, lease: Lease, manifest: Manifest | None):
        self.store, self.copy, self.lease, self.manifest = store, copy, lease, manifest
        self.published = manifest.catalogue if manifest is not None else -1  # the catalogue's generation
        self._sent: Manifest | None = None  # a manifest that may or may not have arrived
        self._lock = threading.Lock()
        self._failures: list[LibraryError | OSError] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish_regularly, name="prvr-publish", daemon=True)

    @property
    def address(self) -> str:
        return self.store.address

    @property
    def folder(self) -> Path:
        return self.copy.folder

    def open_or_create(self, **settings: Any) -> Library:
        """Open the library. If there is none yet, create it and publish it empty, so that others see its settings."""
        if (self.folder / RECORD_FILE).exists():
            return Library.open(self.folder)
        library = Library.create(self.folder, **settings)
        self.publish()
        return library

    def generation(self) -> int:
        """The generation of the local catalogue."""
        with Catalogue(self.folder).reading() as db:
            return read_generation(db)

    def publish(self) -> None:
        """Publish the copy as the newest state, unless it is published already."""
        with self._lock:
            if self._sent is not None and manifest_names(self.store)[-1:] == [self._sent.name]:
                self._note_published(self._sent)  # it had arrived, and only the answer was lost
            manifest = self._upload()
            if self.manifest is None or manifest.files != self.manifest.files:
                self.lease.check()
                self._require_newest(self.manifest)
                self._sent = manifest
                self.store.put(manifest.name, manifest.text.encode())
                self._require_newest(manifest)
                self._note_published(manifest)
                if manifest.generation % _SWEEP == 0:
                    self._sweep()
            self.published = manifest.catalogue

    def _note_published(self, manifest: Manifest) -> None:
        self.manifest, self._sent = manifest, None
        self.copy.note_base(manifest.name, manifest.files)

    def _upload(self) -> Manifest:
        for _ in range(_TRIES):
            try:
                return upload(self.store, self.folder, self.manifest, self.copy.id)
            except FileNotFoundError:  # videos were removed meanwhile
                continue
            except OSError as problem:
                raise disk_error(self.folder, problem) from problem
        raise StoreError(f"{self.folder} changes too fast to be published: run the command again")

    def _require_newest(self, expected: Manifest | None) -> None:
        """Raise if another process has published, and withdraw the manifest that was just written.

        Storage cannot write conditionally, so this is checked before and after writing a manifest.
        """
        names = manifest_names(self.store)
        mine = expected.name if expected is not None else None
        if (names[-1] if names else None) == mine and not _has_rival(names, mine):
            return
        if expected is not None and expected is not self.manifest:
            self.store.delete([expected.name])
        raise StoreError(
            f"another process published {self.address} meanwhile: its state stays. Run the command again to add here "
            "what is missing"
        )

    def check(self) -> None:
        """Raise if publishing has failed several times, so that the work stops."""
        if len(self._failures) >= _FAILURES:
            raise self._failures[-1]

    def _publish_regularly(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                if (self.folder / RECORD_FILE).exists() and self.generation() != self.published:
                    self.publish()
                self._failures.clear()
            except (LibraryError, OSError) as problem:  # the next try may succeed; otherwise ``check`` raises it
                self._failures.append(problem)

    def _sweep(self) -> None:
        """Delete objects and manifests that no current state needs."""
        unused = unused_objects(self.store)
        self.lease.check()
        self.store.delete(unused)

    def start(self) -> None:
        """Start to publish regularly."""
        if self.lease.previous is not None:  # its holder was killed, perhaps during uploads that no manifest lists
            self._sweep()
        self._thread.start()

    def stop(self) -> None:
        """Stop publishing regularly."""
        self._ended.set()
        self._thread.join()

    def close(self) -> None:
        """Publish the last commits, and delete what is no longer needed."""
        self.stop()
        if (self.folder / RECORD_FILE).exists():
            self.publish()
            self._sweep()


def _has_rival(names: list[str], mine: str | None) -> bool:
    """Whether another manifest has the same number."""
    return mine is not None and sum(name.partition("-")[0] == mine.partition("-")[0] for name in names) > 1


def _require_published(store: Store, copy: Copy) -> None:
    """If a library is gone, its disk is probably not mounted: do not create it again."""
    if copy.base is not None and not manifest_names(store):
        raise StoreError(
            f"nothing is published at {copy.address} any more, but this machine has a copy: check that the address is "
            f"right and its disk is mounted, or delete {copy.home} to start again"
        )


@contextmanager
def working_copy(address: str, report: Callable[[str], None] = lambda _: None) -> Iterator[WorkingCopy]:
    """Change a published library. A second process that tries it meanwhile is refused.

    An interrupted block publishes what it finished. After a kill, running the same again continues from the last
    published state, or from this machine's copy of it.

    Args:
        address: ``s3://``, ``gs://`` or ``file://``.
        report: called with sentences for the user.
    """
    store, copy = open_object_store(address), Copy.of(address)
    with ExitStack() as stack:
        try:
            stack.enter_context(copy.writing())
        except Busy as busy:
            raise StoreError(f"{busy.holder or 'another process'} changes {address}: wait until it is done") from None
        with copy.fetching():
            copy = Copy.of(address)
            copy.note_base(copy.base, copy.files)  # so its id survives a kill, and it can take its own lease again
        _require_published(store, copy)  # before anything is written there
        lease = stack.enter_context(Lease(store, copy.id, report))
        with copy.fetching():
            manifest = fetch_newest(store, copy)
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
                report(str(problem))
            raise
        working.close()
