"""Local copies of published libraries: ``$PRVR_CACHE`` or ``~/.cache/prvr``, one folder for each address.

``library/`` is an ordinary library, searched and added to as any other. ``copy.json`` beside it says which published
state it rests on. Commands that change a library hold ``writing.lock`` for as long as they run; whoever brings the copy
up to date holds ``fetching.lock`` meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from prvr.files import Busy, NotAnObject, exclusive_lock, read_json_object, write_whole
from prvr.library.errors import LibraryError
from prvr.library.store.catalogue import Catalogue, generation
from prvr.library.store.settings import FILE
from prvr.objects.fetching import bring, bring_file
from prvr.objects.manifest import Files, Manifest, Segment, newest
from prvr.objects.store import ObjectMissing, Store, StoreError, open_store

_STATE, _LIBRARY = "copy.json", "library"
_PAUSE = 0.2  # seconds between looks at a lock
_DESCRIPTION = re.compile(r"library\.json|model-[^/]+/.+")


def copies_home() -> Path:
    """Where all copies lie."""
    chosen = os.environ.get("PRVR_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr"


def home_of(address: str) -> Path:
    """Where the copy of an address lies, with what is known of it."""
    name = re.sub(r"[^\w.-]+", "_", address.partition("?")[0].rstrip("/").rpartition("/")[2]) or "library"
    return copies_home() / f"{name[:80]}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def _here() -> str:
    return f"@{platform.node()}"


@dataclass
class Copy:
    """The copy of one address on this machine."""

    address: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex + _here())
    base: str | None = None  # the manifest it rests on; it may be ahead of that
    files: Files = field(default_factory=dict)  # as that manifest has them

    @staticmethod
    def of(address: str) -> Copy:
        copy = Copy(address)
        try:
            copy.home.mkdir(parents=True, exist_ok=True)
            found = read_json_object(copy.home / _STATE)
            copy.base = found["base"]
            if str(found["id"]).endswith(_here()):  # a folder that was copied to another machine is another copy
                copy.id = str(found["id"])
            copy.files = {path: tuple(Segment(*part) for part in parts) for path, parts in found["files"].items()}
        except OSError as problem:
            raise StoreError(
                f"{copy.home} cannot hold a copy of {address} ({problem.strerror}): set PRVR_CACHE to another folder"
            ) from None
        except (NotAnObject, KeyError, TypeError, AttributeError):  # a new copy, or one whose state is lost
            copy.base, copy.files = None, {}
        return copy

    def __post_init__(self) -> None:
        self.home = home_of(self.address)

    @property
    def folder(self) -> Path:
        return self.home / _LIBRARY

    def rests_on(self, base: str | None, files: Files) -> None:
        """Note what lies here, so that it counts after a kill."""
        self.base, self.files = base, files
        told = {path: [[part.name, part.size] for part in parts] for path, parts in files.items()}
        write_whole(self.home / _STATE, json.dumps({"id": self.id, "base": base, "files": told}))

    def fetch(self, store: Store, manifest: Manifest) -> None:
        """Make the copy hold a published state; one that is ahead of this very state stays as it is."""
        intact = self.base != manifest.name or self._intact(manifest)
        if self.base == manifest.name and intact:
            return
        if self.base is not None and self.base == manifest.parent and manifest.copy == self.id:
            self.rests_on(manifest.name, manifest.files)  # published from here, and killed before that was noted
            return
        grown = {path: parts for path, parts in self.files.items() if path.startswith("shards/")}
        known = grown if intact else {}  # else every byte is compared
        self.rests_on(None, known)  # from now on it is neither the old state nor the new
        bring(store, manifest, self.folder, known)
        self.rests_on(manifest.name, manifest.files)

    def _intact(self, manifest: Manifest) -> bool:
        """Whether nothing went away here since this state was fetched: caches are emptied, in part too."""
        try:
            with Catalogue(self.folder).reading() as db:
                now = generation(db)
        except LibraryError:
            return False
        ahead = now > manifest.catalogue  # by work that waits to be published; removed videos took their files along
        wanted = {FILE: manifest.files.get(FILE, ())} if ahead else manifest.files
        lengths = {self.folder / name: sum(part.size for part in parts) for name, parts in wanted.items()}
        there = all(path.is_file() and path.stat().st_size >= length for path, length in lengths.items())
        return there and now >= manifest.catalogue

    def forget(self) -> None:
        """Nothing is published there: what lies here belongs to nothing."""
        self.rests_on(None, {})
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """One process at a time brings the copy up to date; others wait."""
        with _patiently(self.home / "fetching.lock"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One process at a time changes the copy; ``Busy`` for others."""
        with _patiently(self.home / "writing.lock", tries=5):  # somebody may just be looking whether it is held
            yield

    def being_written(self) -> bool:
        try:
            with exclusive_lock(self.home / "writing.lock"):
                return False
        except Busy:
            return True


@contextmanager
def _patiently(lock: Path, tries: int | None = None) -> Iterator[None]:
    with ExitStack() as stack:
        for turn in count(1):
            try:
                stack.enter_context(exclusive_lock(lock))
                break
            except Busy:
                if turn == tries:
                    raise
                time.sleep(_PAUSE)
        yield


def fetched(address: str) -> Path:
    """The folder of an up-to-date local copy, to be opened as any library; not to be changed.

    While a command on this machine changes the library, that command's own copy is what is found: at least as new.
    """
    store = open_store(address)
    with Copy.of(address).fetching():
        copy = Copy.of(address)  # another process may have brought it up to date
        if copy.base is not None and copy.being_written():
            return copy.folder
        brought = bring_newest(store, copy)
    if brought is None:
        raise StoreError(
            f"no library was published at {address}: `prvr library add --library '{address}' VIDEOS…` makes one"
        )
    return copy.folder


def bring_newest(store: Store, copy: Copy) -> Manifest | None:
    """Bring a copy to the newest state, which may change meanwhile; None where there is none."""
    while True:
        manifest = newest(store)
        if manifest is None:
            return None
        try:
            copy.fetch(store, manifest)
            return manifest
        except ObjectMissing:  # tidied away, if there is a newer state by now; else it is damage
            now = newest(store)
            if now is not None and now.name == manifest.name:
                raise


def described(address: str) -> Path:
    """A folder with a library's settings and model alone: enough to encode for it."""
    store = open_store(address)
    manifest = newest(store)
    if manifest is None:
        raise StoreError(f"no library was published at {address}")
    folder = Copy.of(address).home / "description"
    for path, parts in manifest.files.items():
        if _DESCRIPTION.fullmatch(path):
            bring_file(store, folder / path, parts)
    return folder
