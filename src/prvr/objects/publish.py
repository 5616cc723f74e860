"""Upload a library as a new state: only what is new is sent.

A library's arrays only grow. What was published of them stays, and their new ends become new objects; a last object
that is still small is uploaded again together with what follows it. Other files are cut into blocks, and only blocks
that changed are uploaded. SQLite's own backup copies the catalogue at one commit, while others may add videos.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from prvr.library import (
    CATALOGUE_FILE,
    INDEX_FOLDER,
    RECORD_FILE,
    SHARDS_FOLDER,
    Catalogue,
    read_generation,
    read_shards,
)
from prvr.objects.fetch import AT_ONCE
from prvr.objects.manifest import OBJECTS, Files, Manifest, Segment, manifest_names, read_manifest
from prvr.objects.store import ObjectMissing, Store, StoreError

LARGEST = 1 << 25  # bytes of an object
SMALL = 1 << 23  # a last segment of fewer bytes is uploaded again together with what follows it
BLOCK = 1 << 22  # bytes; of files that can change anywhere
KEPT = 3  # states; older ones are deleted, even if a reader is fetching them


class _Damaged(Exception):
    """A local copy no longer holds what was published from it or fetched into it."""


@dataclass(frozen=True)
class _File:
    path: Path
    length: int
    grows: bool  # only at its end, or does not change at all


@dataclass(frozen=True)
class _Part:
    path: Path
    start: int
    size: int
    published: Segment | None = None  # its beginning, which must not have changed

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.start)
            data = file.read(self.size)
        if len(data) != self.size:
            raise FileNotFoundError(f"{self.path} is shorter than its catalogue says")
        if self.published is not None and not self.published.fits(data[: self.published.size]):
            raise _Damaged(f"{self.path} no longer holds what was published of it")
        return data


def upload(store: Store, folder: Path, before: Manifest | None, copy: str) -> Manifest:
    """Upload the content of a library that ``before`` does not have.

    Returns:
        The manifest, which is not written yet.

    Raises:
        FileNotFoundError: files were deleted meanwhile, because videos were removed. Try again.
    """
    with _empty_folder(folder.with_name("saving")) as place:
        saved = place / CATALOGUE_FILE
        files, generation = _library_files(folder, saved)
        published = before.files if before is not None else {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            kept: Files = {}
            sent = {}
            try:
                for name, file in files.items():
                    kept[name], parts = _split(file, published.get(name, ()))
                    sent[name] = [pool.submit(_send, store, part, old) for part, old in parts]
                segments = {name: kept[name] + tuple(each.result() for each in sent[name]) for name in files}
            except _Damaged as problem:
                pool.shutdown(cancel_futures=True)
                raise StoreError(
                    f"{problem}, so this copy is damaged: delete {folder.parent} and run the command again"
                ) from None
            except BaseException:
                pool.shutdown(cancel_futures=True)  # one failed: the others need not be tried
                raise
    number = before.generation + 1 if before is not None else 1
    return Manifest(number, before.name if before is not None else None, copy, generation, segments)


@contextmanager
def _empty_folder(place: Path) -> Iterator[Path]:
    """An empty temporary folder. Leftovers of a killed process are deleted: only one process at a time publishes."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _library_files(folder: Path, saved: Path) -> tuple[dict[str, _File], int]:
    """The files of the library at this moment, and its generation. The catalogue is copied to ``saved``."""
    files = {RECORD_FILE: _File(folder / RECORD_FILE, (folder / RECORD_FILE).stat().st_size, True)}
    for path in sorted([*folder.glob("model-*/**/*"), *folder.glob(f"{INDEX_FOLDER}/**/*")]):
        if path.is_file() and not path.name.startswith("."):
            name = path.relative_to(folder).as_posix()
            files[name] = _File(path, path.stat().st_size, name.startswith("model-"))
    with Catalogue(folder).reading() as db:
        if db.execute("SELECT 1 FROM state").fetchone() is None:  # nothing was ever committed
            return files, 0
        with closing(sqlite3.connect(saved)) as target:
            db.backup(target)
    with Catalogue(saved.parent).reading() as db:
        generation = read_generation(db)
        for shard in read_shards(db):
            for name in shard.about["arrays"]:
                place = f"{SHARDS_FOLDER}/{shard.id}/{name}.bin"
                files[place] = _File(folder / place, shard.bytes(name), True)
    files[CATALOGUE_FILE] = _File(saved, saved.stat().st_size, False)
    return files, generation


def _split(file: _File, old: tuple[Segment, ...]) -> tuple[tuple[Segment, ...], list[tuple[_Part, Segment | None]]]:
    """Segments that stay, and parts to upload, each with the published segment that may already hold it."""
    if not file.grows:
        blocks = list(_cut(file, 0, BLOCK))
        return (), [(block, old[at] if at < len(old) else None) for at, block in enumerate(blocks)]
    covered, again = sum(part.size for part in old), None
    if covered > file.length:
        raise _Damaged(f"{file.path} is shorter than what was published of it")
    if covered < file.length and old and old[-1].size < SMALL:
        old, again = old[:-1], old[-1]
        covered -= again.size
    parts = list(_cut(file, covered, LARGEST))
    if again is not None:
        parts[0] = replace(parts[0], published=again)
    return old, [(part, None) for part in parts]


def _cut(file: _File, start: int, size: int) -> Iterator[_Part]:
    for place in range(start, file.length, size):
        yield _Part(file.path, place, min(size, file.length - place))


def _send(store: Store, part: _Part, old: Segment | None) -> Segment:
    data = part.read()
    if old is not None and old.fits(data):
        return old
    # No two uploads share a name, so a process never deletes what another has just uploaded.
    segment = Segment(f"{OBJECTS}/{hashlib.sha256(data).hexdigest()}-{uuid.uuid4().hex[:12]}", len(data))
    store.put(segment.name, data)
    return segment


def unused_objects(store: Store) -> list[str]:
    """Manifests of old states, and objects that no newer manifest lists: of old states, or of killed uploads."""
    objects = store.list(OBJECTS)  # before the manifests, so that uploads from now on are left alone
    names = manifest_names(store)
    used: set[str] = set()
    for name in names[-KEPT:]:
        try:
            used |= read_manifest(store, name).objects.keys()
        except ObjectMissing:
            continue
    return [*names[:-KEPT], *sorted(objects.keys() - used)]
