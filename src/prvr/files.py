"""Writing files so that a kill at any moment leaves the old content or the new, never half of either; reading JSON."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prvr.errors import UserError


class NotAnObject(UserError):
    """A file that should hold a JSON object cannot be read or holds something else."""


def read_json_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds, or ``NotAnObject`` with the reason."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # no text, no JSON, numbers or nesting without end
        raise NotAnObject(f"{path} cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise NotAnObject(f"{path} should hold a JSON object, found {type(value).__name__}")
    return value


def write_whole(path: Path, text: str) -> None:
    """Write text beside its place, then rename it there."""
    beside = _beside(path)
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes its name only when the block ends well; it replaces an older one of that name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = _beside(folder)
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        for path in beside.rglob("*"):
            sync_folder(path)
        old = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():  # a rename cannot replace a full folder
            os.rename(folder, old)
        os.rename(beside, folder)
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def settle(parent: Path) -> None:
    """Put right what a kill left among whole folders: an unfinished one goes, an old one not yet replaced stays."""
    for leftover in parent.glob(".*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    for old in parent.glob(".*.old"):
        place = old.with_name(old.name[1 : -len(".old")])
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, place)


class Busy(UserError):
    """Another process holds a lock; ``holder`` names it."""

    def __init__(self, path: Path, holder: str):
        super().__init__(f"{path} is held by {holder or 'another process'}: wait until it ends")
        self.holder = holder


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock file for the length of the block, or raise ``Busy`` at once; a killed holder lets go by itself.

    Where the file system has no locks, the block runs without.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(path, os.pread(handle, 200, 0).decode("utf-8", "replace").strip()) from None
        except OSError:  # no locks here
            pass
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def sync_folder(path: Path) -> None:
    """See the names in a folder (or the bytes of a file) reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
