"""Pieces on object storage: nodes need no file system in common.

A piece is an object, which appears whole or not at all; it begins with the hash of the rest. Pieces that are committed
stay until the commit has been published: whoever goes on after a kill, on whichever machine, finds one or the other.
"""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

from safetensors.torch import save

from prvr.cluster.pieces import MOST_TRIES, PIECES, FolderPieces, Pieces, packed, unpacked
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.pending import Indexed
from prvr.objects import ObjectMissing, Store, WorkingCopy, is_address, open_store

_TRIES = f"{PIECES}/tries"
_HASH = hashlib.sha256().digest_size


@cache
def pieces_at(address: str) -> Pieces:
    """The pieces of a library, as a worker sees them."""
    return ObjectPieces(open_store(address)) if is_address(address) else FolderPieces(Path(address))


class ObjectPieces:
    """The pieces at a library's address; ``copy``: of whoever commits them."""

    def __init__(self, store: Store, copy: WorkingCopy | None = None):
        self.store, self.copy, self.address = store, copy, store.address
        self.committed: list[tuple[int, list[str]]] = []  # after which generation of the catalogue, and names

    @staticmethod
    def name(key: str) -> str:
        return f"{PIECES}/{key}.safetensors"

    @cached_property
    def listed(self) -> dict[str, int]:
        """What lay there when the work began."""
        return self.store.list(PIECES)

    def has(self, key: str) -> bool:
        return self.listed.get(self.name(key), 0) > _HASH

    def write(self, key: str, item: Indexed) -> None:
        data = save(*packed(item))
        self.store.put(self.name(key), hashlib.sha256(data).digest() + data)

    def read(self, key: str, video: NewVideo) -> Indexed | None:
        try:
            data = self.store.get(self.name(key))
        except ObjectMissing:
            return None
        found = None
        folder = self.copy.folder if self.copy is not None else Path(tempfile.gettempdir())
        if hashlib.sha256(data[_HASH:]).digest() == data[:_HASH]:
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                file.write(data[_HASH:])
                file.flush()
                found = unpacked(Path(file.name), folder, video)
        if found is None:
            self.store.delete([self.name(key)])
        return found

    def begin(self, key: str) -> bool:
        self.store.put(f"{_TRIES}/{key}/{uuid.uuid4().hex}", b".")
        return len(self.store.list(f"{_TRIES}/{key}")) <= MOST_TRIES

    def end(self, key: str) -> None:
        self.store.delete(self.store.list(f"{_TRIES}/{key}"))

    def begin_anew(self) -> None:
        self.store.delete(self.store.list(_TRIES))

    def drop(self, keys: Iterable[str]) -> None:
        assert self.copy is not None, "only whoever commits drops pieces"
        self.committed.append((self.copy.generation(), [self.name(key) for key in keys]))
        while self.committed and self.committed[0][0] <= self.copy.published:
            self.store.delete(self.committed.pop(0)[1])

    def tidy(self) -> None:
        assert self.copy is not None, "only whoever commits tidies pieces away"
        self.copy.publish()
        self.store.delete(self.store.list(PIECES))
