"""Files that survive a kill: written whole or not at all, guarded by locks, and read with a clear error."""

from __future__ import annotations

import errno
import json
import os
import platform
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from prvr.errors import UserError

CHECKSUMS_FILE = "checksums.json"


class NotAnObject(UserError):
    """A file that should hold a JSON object cannot be read or holds something else."""


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        NotAnObject: the file cannot be read, is not JSON or holds something else; the message says which.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # also numbers and nesting without end
        raise NotAnObject(f"{path} cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise NotAnObject(f"{path} should hold a JSON object, found {type(value).__name__}")
    return value


def write_whole(path: Path, text: str, *, sync: bool = True) -> None:
    """Write a text file: a kill at any moment leaves the old content or the new, never half of either.

    ``sync``: a power cut as well. Waiting for the disk may take longer than all else.
    """
    with whole_file(path, sync=sync) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        file.write(text)


@contextmanager
def whole_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A path to write to. It takes the name ``path`` only when the block ends without an error; else it is deleted."""
    beside = _beside(path)
    # A new file, and no link that somebody has put there.
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666))
    try:
        yield beside
        if sync:
            sync_folder(beside)
        os.replace(beside, path)
        if sync:
            sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill. It takes its name, and replaces an older folder, only when the block ends without an error."""
    make_folder(folder.parent)
    beside = _beside(folder)
    beside.mkdir()
    try:
        yield beside
        for path in (*beside.rglob("*"), beside):
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


def make_folder(folder: Path) -> None:
    """Create a folder, and the folders above it that are missing, so that a power cut does not take them away."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def write_checksums(folder: Path) -> None:
    """Keep the checksums of all files of a folder beside them."""
    sums = {str(path.relative_to(folder).as_posix()): _file_checksum(path) for path in _files_in(folder)}
    (folder / CHECKSUMS_FILE).write_text(json.dumps(sums, indent=1) + "\n", "utf-8")


def damaged_file(folder: Path, *names: str) -> Path | None:
    """The first file of a folder that is not what was written; None if all are, or if no checksums were kept.

    Args:
        folder: whose checksums ``write_checksums`` has kept.
        names: the files to look at; without any, all of them.
    """
    if not (folder / CHECKSUMS_FILE).exists():
        return None
    try:
        sums = read_json_object(folder / CHECKSUMS_FILE)
    except NotAnObject:
        return folder / CHECKSUMS_FILE
    for name in names or sums:
        if not (folder / name).is_file() or _file_checksum(folder / name) != sums.get(name):
            return folder / name
    return None


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CHECKSUMS_FILE)


def _file_checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found = zlib.crc32(part, found)
    return found


def recover_folders(parent: Path) -> None:
    """Clean up after a kill inside ``whole_folder``: unfinished folders go, an old one not yet replaced comes back."""
    for leftover in parent.glob(".*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    for old in parent.glob(".*.old"):
        place = old.with_name(old.name[1 : -len(".old")])
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, place)


class Busy(UserError):
    """Another process holds a lock; ``holder`` names it, where that is known."""

    def __init__(self, path: Path, holder: str):
        super().__init__(f"{path} is held by {holder or 'another process'}: wait until it ends")
        self.holder = holder


@contextmanager
def exclusive_lock(path: Path, *, wait: bool | float = False) -> Iterator[bool]:
    """Hold a lock file for the length of the block. The lock of a process that was killed is free again.

    Args:
        path: the lock file. It is created, and stays.
        wait: whether to wait for another holder, or for how many seconds, before ``Busy`` is raised.

    Yields:
        Whether the lock is really held: False where the file system has no locks.
    """
    # A folder that cannot be written is an error of its own; so is a link that somebody has put there.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666))
    lock = FileLock(path, timeout=-1 if wait is True else float(wait), thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise Busy(path, _holder(path)) from None
    except (OSError, NotImplementedError):  # no locks here
        yield False
        return
    try:
        with suppress(OSError):  # Windows lets nobody write into a locked file
            path.write_text(f"process {os.getpid()} on {platform.node()}\n", "utf-8")
        yield True
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds ``exclusive_lock``. Also where this user may only read; nothing is created."""
    try:
        import fcntl
    except ImportError:  # Windows
        return path.exists() and _is_busy(path)
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:  # this user may not even read
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several may look at the same time
    except BlockingIOError:
        return True
    except OSError:  # no locks here
        return False
    finally:
        os.close(file)
    return False


def _is_busy(path: Path) -> bool:
    try:
        with exclusive_lock(path):
            return False
    except (Busy, OSError):
        return True


def _holder(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(200).decode("utf-8", "replace").strip()
    except OSError:  # Windows lets nobody read a locked file
        return ""


def _beside(path: Path) -> Path:
    """A name that nobody can foresee, so that nobody else has put a link there."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder, or the bytes of a file, are on the disk.

    Windows and some network disks cannot do so for folders; nothing happens there.
    """
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(handle)
