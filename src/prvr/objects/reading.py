"""Searching a published library: the local copy, opened so that it cannot be changed by mistake."""

from __future__ import annotations

from typing import Any, NoReturn

from prvr.library import Library
from prvr.library.ingest.tracks import FRAMES, TEXT
from prvr.library.store.arrays import SHARDS
from prvr.library.store.settings import read_about
from prvr.objects.copies import Copy, fetched
from prvr.objects.fetching import begins_with
from prvr.objects.manifest import OBJECTS, Manifest, newest
from prvr.objects.store import StoreError, open_store


class PublishedLibrary(Library):
    """A copy of a published state. What would be changed in it would be lost; ``working_copy`` is for that."""

    address: str

    def _refuse(self) -> NoReturn:
        raise StoreError(
            f"this is a copy of {self.address}, to be searched: `prvr library add`, `remove` and `index` change the "
            "library itself"
        )

    def add(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def remove(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def index(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()


def open_published(address: str) -> PublishedLibrary:
    """Bring the local copy up to date and open it."""
    folder = fetched(address)
    library = PublishedLibrary(folder, read_about(folder), {FRAMES: None, TEXT: None})
    library.address = address
    return library


def published_problems(address: str) -> list[str]:
    """What is wrong at an address: objects of its newest state that are gone or have another size; and arrays of the
    copy here that are no longer what was fetched.

    The content of objects is compared with their hashes whenever they are fetched, not here.
    """
    store = open_store(address)
    manifest = newest(store)
    if manifest is None:
        return [f"no library is published at {address}"]
    there = store.list(OBJECTS)
    lost = [
        f"the object {name} of {address} "
        + (f"holds {there[name]} bytes, expected {size}" if name in there else "is gone")
        + ": restore it from a copy"
        for name, size in manifest.objects.items()
        if there.get(name) != size
    ]
    return lost + _damaged_here(Copy.of(address), manifest)


def _damaged_here(copy: Copy, manifest: Manifest) -> list[str]:
    if copy.base != manifest.name:
        return []
    arrays = {copy.folder / path: parts for path, parts in manifest.files.items() if path.startswith(f"{SHARDS}/")}
    return [
        f"{path} no longer holds what was fetched: delete {copy.home}, and it is fetched again"
        for path, parts in arrays.items()
        if path.is_file() and not begins_with(path, parts)  # one that went away is fetched again by itself
    ]
