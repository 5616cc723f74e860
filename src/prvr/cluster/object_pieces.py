"""Pieces on object storage, for nodes that share no file system.

A piece is an object that starts with the hash of the rest. Committed pieces stay until the commit is published, so
that after a kill the command can continue on any machine.
"""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from safetensors.torch import save

from prvr.cluster.pieces import MOST_TRIES, PIECES, FolderPieces, Pieces, pack_video, unpack_video
from prvr.library import IndexedVideo, NewVideo
from prvr.objects import ObjectMissing, Store, WorkingCopy, is_address, open_object_store

_TRIES = f"{PIECES}/tries"
_HASH = hashlib.sha256().digest_size


def pieces_at(address: str) -> Pieces:
    """The pieces of a library, for a worker."""
    return ObjectPieces(open_object_store(address)) if is_address(address) else FolderPieces(Path(address))


class ObjectPieces:
    """The pieces at a library's address. ``copy``: the working copy of the process that commits them."""

    def __init__(self, store: Store, copy: WorkingCopy | None = None):
        self.store, self.copy, self.address = store, copy, store.address
        self.committed: list[tuple[int, list[str]]] = []  # the catalogue's generation after it, and names of pieces

    @staticmethod
    def name(key: str) -> str:
        return f"{PIECES}/{key}.safetensors"

    @cached_property
    def listed(self) -> dict[str, int]:
        """Names and sizes when the work started."""
        return self.store.list(PIECES)

    def has(self, key: str) -> bool:
        return self.listed.get(self.name(key), 0) > _HASH

    def write(self, key: str, indexed: IndexedVideo) -> None:
        data = save(*pack_video(indexed))
        self.store.put(self.name(key), hashlib.sha256(data).digest() + data)

    def read(self, key: str, video: NewVideo) -> IndexedVideo | None:
        try:
            data = self.store.get(self.name(key))
        except ObjectMissing:
            return None
        indexed = None
        folder = self.copy.folder if self.copy is not None else Path(tempfile.gettempdir())
        if hashlib.sha256(data[_HASH:]).digest() == data[:_HASH]:
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                file.write(data[_HASH:])
                file.flush()
                indexed = unpack_video(Path(file.name), folder, video)
        if indexed is None:
            self.store.delete([self.name(key)])
        return indexed

    def begin(self, key: str) -> bool:
        self.store.put(f"{_TRIES}/{key}/{uuid.uuid4().hex}", b".")
        return len(self.store.list(f"{_TRIES}/{key}")) <= MOST_TRIES

    def end(self, key: str) -> None:
        self.store.delete(self.store.list(f"{_TRIES}/{key}"))

    def forget_tries(self) -> None:
        self.store.delete(self.store.list(_TRIES))

    def drop(self, keys: Iterable[str]) -> None:
        assert self.copy is not None, "only the process that commits deletes pieces"
        self.committed.append((self.copy.generation(), [self.name(key) for key in keys]))
        while self.committed and self.committed[0][0] <= self.copy.published:
            self.store.delete(self.committed.pop(0)[1])

    def tidy(self) -> None:
        assert self.copy is not None, "only the process that commits deletes pieces"
        self.copy.publish()
        self.store.delete(self.store.list(PIECES))
