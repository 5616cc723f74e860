"""Check that a model's files are still the ones that were downloaded.

``prvr prepare`` writes the sha256 of every file it downloads to ``prvr-hashes.json`` next to them, and that record is
copied with the folder. Without a record, the hub's cache helps: it names a weight file by its sha256. Both detect disk
errors and incomplete copies. They do not detect a deliberate change of both a file and its record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.media.errors import EncoderError

HASHES_FILE = "prvr-hashes.json"
_SHA256 = re.compile("[0-9a-f]{64}")


def record_hashes(folder: Path, hashes: Mapping[str, str], revision: str) -> None:
    """Write the sha256 of a model's files (by name) next to them."""
    content = {"revision": revision, "sha256": dict(sorted(hashes.items()))}
    write_whole(folder / HASHES_FILE, json.dumps(content, indent=1) + "\n")


def expected_hashes(folder: Path) -> dict[str, str]:
    """The sha256 that files of a model should have, by name; empty where none was recorded."""
    expected = {}
    for path in sorted(folder.glob("*.safetensors")):
        target = path.resolve().name  # in the hub's cache, a link to a file that is named by its sha256
        if path.is_symlink() and _SHA256.fullmatch(target):
            expected[path.name] = target
    record = folder / HASHES_FILE
    if record.is_file():
        try:
            recorded = read_json_object(record)["sha256"]
            expected |= {str(name): str(value) for name, value in recorded.items()}
        except (NotAnObject, KeyError, AttributeError) as problem:
            raise EncoderError(f"{record} cannot be read ({problem}). Download the model again.") from None
    return expected


def require_unchanged(folder: Path) -> dict[str, str]:
    """Compare a model's files with the recorded hashes; returns the sha256 of each file that was compared.

    Raises:
        EncoderError: a file is missing, cannot be read or has changed.
    """
    expected = expected_hashes(folder)
    for name, sha256 in expected.items():
        path = folder / name
        try:
            found = file_hash(path) if path.is_file() else None
        except OSError as problem:
            raise EncoderError(
                f"{path} cannot be read ({problem.strerror}). Copy or download the model again."
            ) from None
        if found is None:
            raise EncoderError(f"{path} was downloaded but is missing now. Copy or download the model again.")
        if found != sha256:
            raise EncoderError(
                f"{path} has sha256 {found}, but {sha256} was downloaded: the file was damaged or replaced. Delete it "
                "and run `prvr prepare` again, or copy the folder again."
            )
    return expected


def file_hash(*paths: Path) -> str:
    """The sha256 of a file, or of several one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
