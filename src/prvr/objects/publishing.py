"""From a folder to a published state: only what is new travels.

Arrays of a library only grow, so what was published of them stays, and their new ends become new objects; a last one
that is still small is uploaded again together with what came. Everything else is cut into blocks, of which those that
changed are uploaded. The catalogue is copied by SQLite's own backup, at one commit, while others may go on adding.
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

from prvr.library.store.arrays import SHARDS, read_shards
from prvr.library.store.catalogue import FILE as CATALOGUE
from prvr.library.store.catalogue import Catalogue, generation
from prvr.library.store.settings import FILE as ABOUT
from prvr.objects.fetching import AT_ONCE
from prvr.objects.manifest import OBJECTS, Files, Manifest, Segment, manifest_names, read_manifest
from prvr.objects.store import ObjectMissing, Store, StoreError

LARGEST = 1 << 25  # bytes of an object
SMALL = 1 << 23  # a last segment of fewer is uploaded again together with what came behind it
BLOCK = 1 << 22  # of files that change anywhere
KEPT = 3  # states: readers that are fetching one have this long


class _Damaged(Exception):
    """A local copy lost what was published from it or fetched into it."""


@dataclass(frozen=True)
class _File:
    path: Path
    length: int
    grows: bool  # or never changes at all


@dataclass(frozen=True)
class _Stretch:
    path: Path
    start: int
    size: int
    published: Segment | None = None  # of its beginning, which never changes

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
    """Upload what a library has that ``before`` has not. The manifest is returned, and not written yet.

    ``FileNotFoundError``: files went away meanwhile, because videos were removed; try again.
    """
    with _empty_folder(folder.with_name("saving")) as place:
        saved = place / CATALOGUE
        files, now = _wanted(folder, saved)
        published = before.files if before is not None else {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            kept: Files = {}
            sent = {}
            try:
                for name, file in files.items():
                    kept[name], stretches = _split(file, published.get(name, ()))
                    sent[name] = [pool.submit(_send, store, stretch, old) for stretch, old in stretches]
                found = {name: kept[name] + tuple(each.result() for each in sent[name]) for name in files}
            except _Damaged as problem:
                pool.shutdown(cancel_futures=True)
                raise StoreError(
                    f"{problem}, so this copy is damaged: delete {folder.parent} and run it again"
                ) from None
            except BaseException:
                pool.shutdown(cancel_futures=True)  # where one fails, the others need not be tried
                raise
    number = before.generation + 1 if before is not None else 1
    return Manifest(number, before.name if before is not None else None, copy, now, found)


@contextmanager
def _empty_folder(place: Path) -> Iterator[Path]:
    """One process at a time publishes: whatever lies there was left by one that was killed."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _wanted(folder: Path, saved: Path) -> tuple[dict[str, _File], int]:
    """What belongs to the library at this moment, with the catalogue copied to ``saved``; and its generation."""
    found = {ABOUT: _File(folder / ABOUT, (folder / ABOUT).stat().st_size, True)}
    for path in sorted([*folder.glob("model-*/**/*"), *folder.glob("candidates/**/*")]):
        if path.is_file() and not path.name.startswith("."):
            name = path.relative_to(folder).as_posix()
            found[name] = _File(path, path.stat().st_size, name.startswith("model-"))
    with Catalogue(folder).reading() as db:
        if db.execute("SELECT 1 FROM state").fetchone() is None:  # nothing was ever committed
            return found, 0
        with closing(sqlite3.connect(saved)) as target:
            db.backup(target)
    with Catalogue(saved.parent).reading() as db:
        now = generation(db)
        for shard in read_shards(db):
            for name in shard.about["arrays"]:
                place = f"{SHARDS}/{shard.id}/{name}.bin"
                found[place] = _File(folder / place, shard.bytes(name), True)
    found[CATALOGUE] = _File(saved, saved.stat().st_size, False)
    return found, now


def _split(file: _File, old: tuple[Segment, ...]) -> tuple[tuple[Segment, ...], list[tuple[_Stretch, Segment | None]]]:
    """Segments that stay, and stretches to upload with the segment that may already hold them."""
    if not file.grows:
        blocks = list(_cut(file, 0, BLOCK))
        return (), [(block, old[at] if at < len(old) else None) for at, block in enumerate(blocks)]
    covered, again = sum(part.size for part in old), None
    if covered > file.length:
        raise _Damaged(f"{file.path} is shorter than what was published of it")
    if covered < file.length and old and old[-1].size < SMALL:
        old, again = old[:-1], old[-1]
        covered -= again.size
    stretches = list(_cut(file, covered, LARGEST))
    if again is not None:
        stretches[0] = replace(stretches[0], published=again)
    return old, [(stretch, None) for stretch in stretches]


def _cut(file: _File, start: int, size: int) -> Iterator[_Stretch]:
    for place in range(start, file.length, size):
        yield _Stretch(file.path, place, min(size, file.length - place))


def _send(store: Store, stretch: _Stretch, old: Segment | None) -> Segment:
    data = stretch.read()
    if old is not None and old.fits(data):
        return old
    # No two uploads share a name, so what one process tidies away is never what another has just uploaded.
    part = Segment(f"{OBJECTS}/{hashlib.sha256(data).hexdigest()}-{uuid.uuid4().hex[:12]}", len(data))
    store.put(part.name, data)
    return part


def garbage(store: Store) -> list[str]:
    """Manifests of old states, and objects that no other manifest names: uploads that a kill cut off, and the past."""
    objects = store.list(OBJECTS)  # before the manifests: what is uploaded from now on is not looked at
    names = manifest_names(store)
    wanted: set[str] = set()
    for name in names[-KEPT:]:
        try:
            wanted |= read_manifest(store, name).objects.keys()
        except ObjectMissing:
            continue
    return [*names[:-KEPT], *sorted(objects.keys() - wanted)]
