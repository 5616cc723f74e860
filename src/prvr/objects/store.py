"""Object storage: put, get, list and delete, in a folder (``file://``) or a bucket (``s3://``, ``gs://``)."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from prvr.files import sync_folder
from prvr.library import LibraryError

_BUCKETS = ("s3", "gs", "gcs")
_SCHEMES = ("file", *_BUCKETS)
_KEY = re.compile(r"(?:^|&)[^=&]*(?:key|secret|token|password)", re.IGNORECASE)  # options that hold a secret
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


class StoreError(LibraryError):
    """Object storage cannot do what was asked. The message says what to do."""


class ObjectMissing(StoreError):
    """An object does not exist."""


class Store(Protocol):
    """Objects at one address. Names are relative, with ``/`` between their parts."""

    address: str

    def put(self, name: str, data: bytes) -> None:
        """Write an object atomically. It replaces one of the same name."""

    def get(self, name: str) -> bytes:
        """An object's content, or ``ObjectMissing``."""

    def list(self, folder: str) -> dict[str, int]:
        """The names of all objects in a folder and below, with their sizes."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. Those that do not exist are ignored."""


def is_address(text: str | Path) -> bool:
    """Whether a library is named by a URI, not by a folder.

    >>> is_address("s3://bucket/films.prvr"), is_address("films.prvr")
    (True, False)
    """
    return _ADDRESS.match(str(text)) is not None


def open_object_store(address: str) -> Store:
    """Open the store of an address. Its bucket must exist."""
    parts = _split(address)
    if parts.scheme.lower() not in _SCHEMES:
        raise StoreError(f"{address}: a library is a folder, or an address that starts with s3://, gs:// or file://")
    if parts.scheme.lower() == "file":
        folder = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not folder.strip("/") or "\0" in folder:
            raise StoreError(f"{address} does not name a folder: write file:///folder/films.prvr, with three slashes")
        return FolderStore(address, Path(folder))
    if not parts.netloc or not parts.path.strip("/"):
        raise StoreError(f"{address} does not name a place in a bucket: write {parts.scheme}://BUCKET/films.prvr")
    from prvr.objects.buckets import open_bucket  # pyarrow is an extra

    return open_bucket(address)


def _split(address: str) -> SplitResult:
    """The parts of an address. One that holds keys is refused, without repeating it."""
    try:
        address.encode()
        parts = urlsplit(address)
    except ValueError:  # unbalanced brackets, or bytes that are not text
        raise StoreError(
            f"{address!r} is not an address: write s3://BUCKET/films.prvr or file:///folder/films.prvr"
        ) from None
    # A secret that contains a slash ends this part before its @; what is left then contains a colon.
    in_front = "@" in parts.netloc or (parts.scheme.lower() in _BUCKETS and ":" in parts.netloc)
    if in_front or "@" in unquote(parts.query) or _KEY.search(parts.query):
        raise StoreError(
            "an address must not contain keys, because others can see it: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY (or a profile in ~/.aws) and leave them out"
        )
    return parts


class FolderStore:
    """Objects as files, for network storage without file locks and for tests."""

    def __init__(self, address: str, folder: Path):
        self.address, self.folder = address, folder

    def put(self, name: str, data: bytes) -> None:
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, path)
            finally:
                Path(beside).unlink(missing_ok=True)
            sync_folder(path.parent)
        except OSError as problem:
            raise StoreError(f"{path} could not be written: {problem.strerror or problem}") from problem

    def get(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise ObjectMissing(f"{self.folder / name} does not exist") from None
        except OSError as problem:
            raise StoreError(f"{self.folder / name} could not be read: {problem.strerror or problem}") from problem

    def list(self, folder: str) -> dict[str, int]:
        """Includes unfinished files of a killed process (``.*.part``): no manifest lists them, so they get deleted."""
        found = {}
        for place, _, names in os.walk(self.folder / folder, onerror=_raise_unless_missing):
            for path in (Path(place, name) for name in names):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
        return found

    def delete(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
        except OSError as problem:
            raise StoreError(f"{problem.filename} could not be deleted: {problem.strerror}") from problem


def _raise_unless_missing(problem: OSError) -> None:
    """Raise unless the folder does not exist: an unreadable folder does not count as empty."""
    if not isinstance(problem, FileNotFoundError):
        raise StoreError(f"{problem.filename} could not be listed: {problem.strerror or problem}") from problem
