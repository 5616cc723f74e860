"""Fetch a published state into a folder: only what is missing, and every byte is compared with its hash."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from prvr.library import CATALOGUE_FILE, INDEX_FOLDER, SHARDS_FOLDER
from prvr.objects.manifest import Files, Manifest, Segment
from prvr.objects.store import Store, StoreError

AT_ONCE = 4  # transfers
_OURS = (SHARDS_FOLDER, INDEX_FOLDER)  # folders that hold only published files


def fetch_state(store: Store, manifest: Manifest, folder: Path, known: Files) -> None:
    """Make a folder hold a published state.

    A changed file is written under another name and renamed, so that processes that have the old one mapped keep
    it. The catalogue comes last; then files that it no longer lists are deleted.

    Args:
        store: where the state is published.
        manifest: the state.
        folder: the folder.
        known: segments that the folder is known to hold, of files that only grow.
    """
    for leftover in (folder / f"{CATALOGUE_FILE}-journal", *folder.glob(".*.part")):  # of the old state, or of a kill
        leftover.unlink(missing_ok=True)
    first = {path: parts for path, parts in manifest.files.items() if path != CATALOGUE_FILE}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda path: fetch_file(store, folder / path, first[path], known.get(path, ())), first))
    if CATALOGUE_FILE in manifest.files:
        fetch_file(store, folder / CATALOGUE_FILE, manifest.files[CATALOGUE_FILE])
    else:
        (folder / CATALOGUE_FILE).unlink(missing_ok=True)
    _remove(folder, manifest.files.keys())


def fetch_file(store: Store, path: Path, parts: tuple[Segment, ...], known: tuple[Segment, ...] = ()) -> None:
    """Fetch the published content of one file. Existing parts are not fetched again."""
    trusted = _common(parts, known)
    total = sum(part.size for part in parts)
    try:
        if path.is_file() and (path.stat().st_size >= total if trusted == len(parts) else _holds(path, parts)):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            with beside.open("wb") as file:
                _fill(store, path, parts, trusted, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(f"the local copy {path} could not be written: {problem.strerror or problem}") from problem


def _holds(path: Path, parts: tuple[Segment, ...]) -> bool:
    """Whether a file holds exactly what was published, by its hashes."""
    return path.stat().st_size == sum(part.size for part in parts) and begins_with(path, parts)


def begins_with(path: Path, parts: tuple[Segment, ...]) -> bool:
    """Whether a file starts with what was published of it, by its hashes. It may have grown since."""
    with path.open("rb") as file:
        return all(part.fits(file.read(part.size)) for part in parts)


def _fill(store: Store, path: Path, parts: tuple[Segment, ...], trusted: int, file: IO[bytes]) -> None:
    old = path.open("rb") if path.is_file() else None
    try:
        for number, part in enumerate(parts):
            data = old.read(part.size) if old is not None else b""
            if len(data) != part.size or (number >= trusted and not part.fits(data)):
                data = fetch_object(store, part)
            file.write(data)
    finally:
        if old is not None:
            old.close()


def fetch_object(store: Store, part: Segment) -> bytes:
    """An object's content, compared with its hash."""
    data = store.get(part.name)
    if not part.fits(data):
        raise StoreError(
            f"the object {part.name} of {store.address} is damaged (its {len(data)} bytes are not the {part.size} that "
            "were published): restore it from a copy, or create the library again"
        )
    return data


def _common(parts: tuple[Segment, ...], known: tuple[Segment, ...]) -> int:
    """How many segments both lists share at their start."""
    count = 0
    for one, other in zip(parts, known, strict=False):
        if one != other:
            break
        count += 1
    return count


def _remove(folder: Path, keep: Iterable[str]) -> None:
    kept = {folder / path for path in keep}
    places = {parent for path in kept for parent in path.parents}
    for name in _OURS:
        for path in sorted((folder / name).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if path not in places:
                    shutil.rmtree(path, ignore_errors=True)
            elif path not in kept:
                path.unlink(missing_ok=True)
