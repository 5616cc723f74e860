"""The manifest of a published state: ``manifests/NUMBER-HASH.json``, uploaded after all the objects that it lists."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from prvr import __version__
from prvr.objects.store import ObjectMissing, Store, StoreError

FORMAT = 1  # the newest that this version reads
MANIFESTS, OBJECTS = "manifests", "objects"
_OBJECT = re.compile(rf"{OBJECTS}/[0-9a-f]{{64}}-[0-9a-f]{{1,32}}")
_NAME = re.compile(rf"{MANIFESTS}/[0-9]{{12}}-[0-9a-f]{{32}}\.json")
_TRIES = 5
_MOST = 10**12  # states: names are sorted as text, so their numbers have twelve digits
_LONGEST = 1 << 31  # bytes of an object, which is held in memory; published objects are far smaller


@dataclass(frozen=True)
class Segment:
    """A part of a file, kept as one object. The object's name starts with the hash of its content."""

    name: str
    size: int

    @property
    def sha256(self) -> str:
        return self.name.partition("/")[2][:64]

    def fits(self, data: bytes) -> bool:
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


Files = dict[str, tuple[Segment, ...]]


@dataclass(frozen=True)
class Manifest:
    """One published state of a library."""

    generation: int  # one more than its predecessor's
    parent: str | None  # its predecessor's name
    copy: str  # which local copy it was published from
    catalogue: int  # the catalogue's own generation
    files: Files
    made_by: str = __version__

    @cached_property
    def text(self) -> str:
        files = {path: [[part.name, part.size] for part in parts] for path, parts in self.files.items()}
        return json.dumps({"format": FORMAT, **asdict(self), "files": files}, sort_keys=True) + "\n"

    @cached_property
    def name(self) -> str:
        return f"{MANIFESTS}/{self.generation:012d}-{_hash(self.text.encode())}.json"

    @property
    def objects(self) -> dict[str, int]:
        return {part.name: part.size for parts in self.files.values() for part in parts}

    @property
    def bytes(self) -> int:
        return sum(self.objects.values())


def newest_manifest(store: Store) -> Manifest | None:
    """The manifest of the current state; None if no library was published."""
    for _ in range(_TRIES):
        names = manifest_names(store)
        if not names:
            return None
        try:
            return read_manifest(store, names[-1])
        except ObjectMissing:  # it was old, and was deleted meanwhile
            continue
    raise StoreError(f"{store.address}: its manifests are deleted as soon as they are listed; try again")


def manifest_names(store: Store) -> list[str]:
    """All manifests, the oldest first. Other files in that folder are ignored."""
    return sorted(name for name in store.list(MANIFESTS) if _NAME.fullmatch(name))


def read_manifest(store: Store, name: str) -> Manifest:
    """Read a manifest and check that it is safe to follow."""
    data = store.get(name)
    where = f"the object {name} of {store.address}"
    if _hash(data) != name.rpartition("-")[2].removesuffix(".json"):
        raise StoreError(f"{where} is damaged (its content is not what its name says): restore it from a copy")
    try:
        fields: dict[str, Any] = json.loads(data)
        version = fields.pop("format")
        if not isinstance(version, int) or version > FORMAT:
            raise StoreError(
                f"{store.address} was published by a newer prvr (format {version}, made by "
                f"{fields.get('made_by', 'unknown')}; this is prvr {__version__}, which reads {FORMAT}): update prvr"
            )
        files = {path: tuple(Segment(*part) for part in parts) for path, parts in fields.pop("files").items()}
        manifest = Manifest(**fields, files=files)
        _require_safe(manifest)
        if manifest.name != name:
            raise ValueError(f"its name should be {manifest.name}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise StoreError(f"{where} does not describe a library ({problem}): restore it from a copy") from None
    return manifest


def _require_safe(manifest: Manifest) -> None:
    """Refuse paths outside the library: writing to the bucket must not allow writing to readers' machines."""
    numbers, words = (manifest.generation, manifest.catalogue), (manifest.copy, manifest.parent or "", manifest.made_by)
    if not all(isinstance(each, int) and 0 <= each < _MOST for each in numbers) or not all(
        isinstance(each, str) for each in words
    ):
        raise ValueError("a number or a name in it is not valid")
    for path, parts in manifest.files.items():
        path.encode()  # raises for text that is not valid Unicode
        pieces = PurePosixPath(path).parts
        if not pieces or path.startswith("/") or ".." in pieces or "\\" in path or "\0" in path:
            raise ValueError(f"{path!r:.60} is not a path in a library")
        for part in parts:
            if not _OBJECT.fullmatch(part.name) or not isinstance(part.size, int) or not 0 <= part.size < _LONGEST:
                raise ValueError(f"{part.name!r:.90} is not an object of a library")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
