"""Searching a published library: the local copy, opened so that it cannot be changed by mistake."""

from __future__ import annotations

from typing import Any, NoReturn

from prvr.library import Library
from prvr.library.settings import read_about
from prvr.library.tracks import FRAMES, TEXT
from prvr.objects.copies import fetched
from prvr.objects.manifest import newest
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
    """What is wrong at an address: objects of its newest state that are gone or have another size.

    Their content is compared with their hashes whenever they are fetched, not here.
    """
    store = open_store(address)
    manifest = newest(store)
    if manifest is None:
        return [f"no library is published at {address}"]
    there = store.list("objects")
    return [
        f"the object {name} of {address} "
        + (f"holds {there[name]} bytes, expected {size}" if name in there else "is gone")
        + ": restore it from a copy"
        for name, size in manifest.objects.items()
        if there.get(name) != size
    ]
