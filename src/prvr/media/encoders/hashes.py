"""Whether a model's files are still those that were fetched.

``prvr prepare`` notes the hash of every file it fetched in ``prvr-hashes.json`` beside them; the note travels with the
folder. Where there is none, the hub's cache helps: it names the content of a weight file by its sha256. Both find a
disk's mistakes and a half-copied folder, not somebody who changes file and note together.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.media.errors import EncoderError

RECORD = "prvr-hashes.json"
_BLOB = re.compile("[0-9a-f]{64}")


def record_hashes(folder: Path, names: Iterable[str], revision: str) -> None:
    """Note the hashes of a model's files as they are now."""
    found = {name: file_hash(folder / name) for name in sorted(names)}
    write_whole(folder / RECORD, json.dumps({"revision": revision, "sha256": found}, indent=1) + "\n")


def expected_hashes(folder: Path) -> dict[str, str]:
    """sha256 that files of a model should have, by name; empty where nobody noted any."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        blob = path.resolve().name  # in the hub's cache a link to a file that is named by its content
        if path.is_symlink() and _BLOB.fullmatch(blob):
            found[path.name] = blob
    if (folder / RECORD).is_file():
        try:
            noted = read_json_object(folder / RECORD)["sha256"]
            found |= {str(name): str(value) for name, value in noted.items()}
        except (NotAnObject, KeyError, AttributeError) as problem:
            raise EncoderError(f"{folder / RECORD} cannot be read ({problem}): fetch the model again") from None
    return found


def require_unchanged(folder: Path) -> int:
    """Refuse a model whose files are not those that were fetched; returns how many were compared."""
    expected = expected_hashes(folder)
    for name, hashed in expected.items():
        path = folder / name
        try:
            found = file_hash(path) if path.is_file() else None
        except OSError as problem:
            raise EncoderError(f"{path} cannot be read ({problem.strerror}): copy or fetch the model again") from None
        if found is None:
            raise EncoderError(f"{path} is missing, though it was fetched: copy or fetch the model again")
        if found != hashed:
            raise EncoderError(
                f"{path} has sha256 {found}, but {hashed} was fetched: it was damaged or replaced. Delete it and run "
                "`prvr prepare` again, or copy the folder again"
            )
    return len(expected)


def file_hash(*paths: Path) -> str:
    """sha256 of files, one after the other; a file that did not change is read once."""
    facts = [path.stat() for path in paths]
    stamps = tuple((fact.st_dev, fact.st_ino, fact.st_size, fact.st_mtime_ns) for fact in facts)
    return _hash(tuple(map(str, paths)), stamps)


@lru_cache(maxsize=256)
def _hash(paths: tuple[str, ...], stamps: tuple[tuple[int, ...], ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
