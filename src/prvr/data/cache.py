"""Where prepared tables are kept between runs, and how they are written safely.

A cache entry is a folder named after everything its content depends on: the split, the settings, and the sizes and
times of the source files. It gets that name in one step, when it is complete. So a half-written entry is never read, a
stale one is never found, and two processes may build the same entry at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from prvr.data.errors import DataError
from prvr.files import exclusive_lock


def fingerprint(files: Sequence[Path]) -> str:
    """A short hash of the sizes and times of the source files."""
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def cache_home(collection: Path, chosen: Path | None = None) -> Path:
    """The chosen folder, else one next to the data if that is writable, else the user's cache folder."""
    if chosen is None:
        beside = collection / ".prvr-cache"
        if os.access(beside if beside.exists() else collection, os.W_OK):
            return beside
        chosen = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr"
    place = str(collection.resolve())
    return chosen / f"{collection.resolve().name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def cached_folder(home: Path, name: str, version: str, build: Callable[[Path], None]) -> Path:
    """The folder of ``name`` at ``version``, built by ``build(empty_folder)`` if it does not exist yet.

    Other versions of the same name are stale; they are removed once the new one is complete.
    """
    final = home / f"{name}.{version}"
    if final.is_dir():
        return final
    try:
        home.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(home / f".{name}.lock", wait=True) as alone:
            if not final.is_dir():
                if alone:
                    _remove(home, f".{name}.building-*")  # left by a builder that was killed
                _build(home, name, final, build)
                _remove(home, f"{name}.*", keep=final)
    except OSError as problem:
        raise DataError(
            f"{home}: the prepared features cannot be written ({problem.strerror or problem}). "
            "Free some space, or choose another cache folder."
        ) from problem
    return final


def _build(home: Path, name: str, final: Path, build: Callable[[Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{name}.building-", dir=home))
    try:
        build(work)
        work.chmod(0o755)  # mkdtemp makes it private; a shared data folder has other readers
        try:
            work.rename(final)
        except OSError:
            if not final.is_dir():  # otherwise another process built the same folder first; use it
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove(home: Path, pattern: str, keep: Path | None = None) -> None:
    for folder in home.glob(pattern):
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
