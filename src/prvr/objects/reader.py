"""Search a published library: its local copy, which cannot be changed by mistake."""

from __future__ import annotations

from typing import Any, NoReturn

from prvr.library import FRAMES, SHARDS_FOLDER, TEXT, Library, read_record
from prvr.objects.copies import Copy, fetch_copy
from prvr.objects.fetch import begins_with
from prvr.objects.manifest import OBJECTS, Manifest, newest_manifest
from prvr.objects.store import StoreError, open_object_store


class PublishedLibrary(Library):
    """A copy of a published state. Changes in it would be lost, so they are refused; use ``working_copy``."""

    address: str

    def _refuse(self) -> NoReturn:
        raise StoreError(
            f"this is a copy of {self.address}, which can only be searched: `prvr library add`, `remove` and `index` "
            "change the library itself"
        )

    def adder(self, *_: Any, **__: Any) -> NoReturn:  # all ways to add need it
        self._refuse()

    def remove(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def index(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()


def open_published(address: str) -> PublishedLibrary:
    """Update the local copy and open it."""
    folder = fetch_copy(address)
    library = PublishedLibrary(folder, read_record(folder), {FRAMES: None, TEXT: None})
    library.address = address
    return library


def published_problems(address: str) -> list[str]:
    """What is wrong at an address: missing objects, objects of a wrong size, and damaged arrays of the local copy.

    The content of objects is compared with their hashes when they are fetched, not here.
    """
    store = open_object_store(address)
    manifest = newest_manifest(store)
    if manifest is None:
        return [f"no library is published at {address}"]
    there = store.list(OBJECTS)
    lost = [
        f"the object {name} of {address} "
        + (f"holds {there[name]} bytes, expected {size}" if name in there else "is missing")
        + ": restore it from a copy"
        for name, size in manifest.objects.items()
        if there.get(name) != size
    ]
    return lost + _damaged_here(Copy.of(address), manifest)


def _damaged_here(copy: Copy, manifest: Manifest) -> list[str]:
    if copy.base != manifest.name:
        return []
    arrays = {
        copy.folder / path: parts for path, parts in manifest.files.items() if path.startswith(f"{SHARDS_FOLDER}/")
    }
    return [
        f"{path} no longer holds what was fetched: delete {copy.home}, then it is fetched again"
        for path, parts in arrays.items()
        if path.is_file() and not begins_with(path, parts)  # a missing one is fetched again anyway
    ]
