"""Local copies of published libraries: ``$PRVR_CACHE`` or ``~/.cache/prvr``, one folder for each address.

``library/`` is an ordinary library, searched and added to like any other. ``copy.json`` next to it names the published
state it is based on. Commands that change a library hold ``writing.lock`` while they run; a process that updates the
copy holds ``fetching.lock``.
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
from prvr.library import RECORD_FILE, Catalogue, LibraryError, read_generation
from prvr.objects.fetch import fetch_file, fetch_state
from prvr.objects.manifest import Files, Manifest, Segment, newest_manifest
from prvr.objects.store import ObjectMissing, Store, StoreError, open_object_store

_STATE, _LIBRARY = "copy.json", "library"
_PAUSE = 0.2  # seconds between tries to lock
_DESCRIPTION = re.compile(r"library\.json|model-[^/]+/.+")


def copies_home() -> Path:
    """The folder of all copies."""
    chosen = os.environ.get("PRVR_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr"


def home_of(address: str) -> Path:
    """The folder of the copy of an address."""
    name = re.sub(r"[^\w.-]+", "_", address.partition("?")[0].rstrip("/").rpartition("/")[2]) or "library"
    return copies_home() / f"{name[:80]}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def _machine() -> str:
    return f"@{platform.node()}"


@dataclass
class Copy:
    """The copy of one address on this machine."""

    address: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex + _machine())
    base: str | None = None  # the manifest it is based on; it may be ahead of that
    files: Files = field(default_factory=dict)  # as listed in that manifest

    @staticmethod
    def of(address: str) -> Copy:
        """Open the copy of an address, with the state that ``copy.json`` records."""
        copy = Copy(address)
        try:
            copy.home.mkdir(parents=True, exist_ok=True)
            state = read_json_object(copy.home / _STATE)
            copy.base = state["base"]
            if str(state["id"]).endswith(_machine()):  # a folder that was copied to another machine is another copy
                copy.id = str(state["id"])
            copy.files = {path: tuple(Segment(*part) for part in parts) for path, parts in state["files"].items()}
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

    def note_base(self, base: str | None, files: Files) -> None:
        """Record what the copy is based on, so that it survives a kill."""
        self.base, self.files = base, files
        listed = {path: [[part.name, part.size] for part in parts] for path, parts in files.items()}
        write_whole(self.home / _STATE, json.dumps({"id": self.id, "base": base, "files": listed}))

    def fetch(self, store: Store, manifest: Manifest) -> None:
        """Update the copy to a published state. A copy that is newer than this state is not changed."""
        intact = self.base != manifest.name or self._intact(manifest)
        if self.base == manifest.name and intact:
            return
        if self.base is not None and self.base == manifest.parent and manifest.copy == self.id:
            self.note_base(manifest.name, manifest.files)  # published from here, then killed
            return
        grown = {path: parts for path, parts in self.files.items() if path.startswith("shards/")}
        known = grown if intact else {}  # otherwise every byte is compared
        self.note_base(None, known)  # until it is done, the copy is neither the old state nor the new one
        fetch_state(store, manifest, self.folder, known)
        self.note_base(manifest.name, manifest.files)

    def _intact(self, manifest: Manifest) -> bool:
        """Whether all files still exist. The cache may have been emptied, or a part of it."""
        try:
            with Catalogue(self.folder).reading() as db:
                now = read_generation(db)
        except LibraryError:
            return False
        ahead = now > manifest.catalogue  # changed and not published yet; files of removed videos are gone
        expected = {RECORD_FILE: manifest.files.get(RECORD_FILE, ())} if ahead else manifest.files
        lengths = {self.folder / name: sum(part.size for part in parts) for name, parts in expected.items()}
        there = all(path.is_file() and path.stat().st_size >= length for path, length in lengths.items())
        return there and now >= manifest.catalogue

    def forget(self) -> None:
        """Delete the copy of a library that is no longer published."""
        self.note_base(None, {})
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """One process at a time updates the copy; others wait."""
        with _locked(self.home / "fetching.lock"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One process at a time changes the copy; ``Busy`` for others."""
        with _locked(self.home / "writing.lock", tries=5):  # ``being_written`` holds it for a moment
            yield

    def being_written(self) -> bool:
        try:
            with exclusive_lock(self.home / "writing.lock"):
                return False
        except Busy:
            return True


@contextmanager
def _locked(lock: Path, tries: int | None = None) -> Iterator[None]:
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


def fetch_copy(address: str) -> Path:
    """Update the local copy. Returns its folder, which can be opened like any library but must not be changed.

    While a command on this machine changes the library, its working copy is returned; that is at least as new.
    """
    store = open_object_store(address)
    with Copy.of(address).fetching():
        copy = Copy.of(address)  # another process may have brought it up to date
        if copy.base is not None and copy.being_written():
            return copy.folder
        manifest = fetch_newest(store, copy)
    if manifest is None:
        raise StoreError(
            f"no library was published at {address}: create one with `prvr library add --library '{address}' VIDEOS…`"
        )
    return copy.folder


def fetch_newest(store: Store, copy: Copy) -> Manifest | None:
    """Update a copy to the newest state, even if a newer one is published meanwhile; None if nothing is published."""
    while True:
        manifest = newest_manifest(store)
        if manifest is None:
            return None
        try:
            copy.fetch(store, manifest)
            return manifest
        except ObjectMissing:  # deleted because there is a newer state by now; otherwise it is damage
            now = newest_manifest(store)
            if now is not None and now.name == manifest.name:
                raise


def fetch_description(address: str) -> Path:
    """Fetch only a library's settings and model, which are enough to encode for it. Returns their folder."""
    store = open_object_store(address)
    manifest = newest_manifest(store)
    if manifest is None:
        raise StoreError(f"no library was published at {address}")
    folder = Copy.of(address).home / "description"
    for path, parts in manifest.files.items():
        if _DESCRIPTION.fullmatch(path):
            fetch_file(store, folder / path, parts)
    return folder
