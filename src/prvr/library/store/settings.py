"""The settings of a library, decided once and kept in ``library.json``.

The file names the folder's format, so that an older program refuses a newer library instead of damaging it, and the
encoders that its vectors come from. Only ``reindex`` changes them: the catalogue then holds the record that counts, so
that record and vectors change in one transaction.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import prvr
from prvr.files import make_folder, sync_folder, write_whole
from prvr.library.errors import LibraryError
from prvr.library.store.catalogue import CATALOGUE_FILE, Catalogue, read_notes, write_notes
from prvr.library.store.model import ModelRecord
from prvr.media import USUAL_REPEATS, Backend

# The newest that this program reads. 1: no trained model, 2: with one, 3: reindexed, or its encoder's own sentences,
# 4: with a trained model that has a witness
FORMAT = 4
_REINDEXED = 3
BackgroundKind = Literal["common", "encoder"]
RECORD_FILE = "library.json"
RECORD_NOTE = "record"  # the name of the record in the catalogue of a library that was reindexed
_LONGEST_WINDOW = 1e6  # seconds
_LEFT_SECONDS = 60.0  # after which nobody works on a part of a file any more


class DamagedRecord(LibraryError):
    """``library.json`` is not what was written."""


@dataclass(frozen=True)
class LibrarySettings:
    """How videos are turned into vectors."""

    encoder: str = ""
    """a name that `prvr prepare` has fetched, a folder, or plain [the image–text encoder that is prepared]"""
    rate: float = 1.0
    """frames per second to encode"""
    text_encoder: str | None = None
    """encoder of subtitles: a folder or a prepared name such as minilm; without one, only their words are searched"""
    local: Literal["windows", "frames", "moments"] = "windows"
    """what a search compares with the query: windows of a few seconds, single frames, or adaptive moments"""
    window: float = 2.0
    """seconds of a window"""
    stride: float = 1.0
    """seconds from one window to the next"""
    repeats: float = USUAL_REPEATS
    """a frame that looks like the last encoded one is not encoded again: no part differs by more than this (levels of
    255); 0 encodes every frame"""
    decoder: Backend = "pyav"
    """what decodes videos: pyav, torchcodec (with the system's FFmpeg), or nvdec (torchcodec on an NVIDIA GPU)"""
    storage: Literal["fp16", "int8", "fp32"] = "fp16"
    """number type in which vectors are stored"""
    model: str | None = None
    """folder of a trained run to search with; encoder and rate are then those of the run"""

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1000:
            raise LibraryError(f"the rate must lie between 0 and 1000 frames per second, not {self.rate}")
        if not (0 < self.stride <= self.window <= _LONGEST_WINDOW):
            raise LibraryError(
                f"the stride must be above 0 and at most the window, the window at most {_LONGEST_WINDOW:g} seconds; "
                f"found stride {self.stride!s:.20} and window {self.window!s:.20}"
            )
        if not 0 <= self.repeats <= 255:
            raise LibraryError(f"repeats must lie between 0 (encode every frame) and 255 levels, not {self.repeats}")
        defaults = {each.name: each.default for each in fields(self) if each.name in ("local", "window", "stride")}
        changed = [name for name, value in defaults.items() if getattr(self, name) != value]
        if self.model is not None and changed:
            raise LibraryError(f"a trained model makes its own local tokens: leave out --{' and --'.join(changed)}")


@dataclass(frozen=True)
class LibraryRecord:
    """The content of ``library.json``."""

    settings: LibrarySettings
    recipes: dict[str, dict[str, Any]]  # by track: how its vectors were made
    model: ModelRecord | None = None
    made_by: str = field(default_factory=lambda: prvr.__version__)

    @property
    def format(self) -> int:
        if self.model is None:
            return 1
        return 4 if self.model.witness else 2

    def to_json(self, version: int | None = None) -> str:
        """The text of ``library.json``, with a checksum; ``version``: of the folder's format."""
        values = {**asdict(self), "format": self.format if version is None else max(version, self.format)}
        if self.model is not None and not self.model.witness:
            del values["model"]["witness"]  # which older versions do not know
        return json.dumps({**values, "checksum": _checksum(values)}, indent=1) + "\n"


def write_record(folder: Path, about: LibraryRecord) -> bool:
    """Write ``library.json`` unless it exists. Returns False if another process was first."""
    make_folder(folder)
    temporary = folder / f".{RECORD_FILE}.{os.getpid()}"
    try:
        write_whole(temporary, about.to_json())
        os.link(temporary, folder / RECORD_FILE)  # unlike a rename, a link never replaces
    except FileExistsError:
        return False
    except FileNotFoundError:  # swept by a process that was first
        if not (folder / RECORD_FILE).exists():
            raise
        return False
    except OSError:  # a file system without hard links
        if (folder / RECORD_FILE).exists():
            return False
        os.replace(temporary, folder / RECORD_FILE)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(folder)
    return True


def write_reindexed_record(folder: Path, about: LibraryRecord) -> None:
    """Replace ``library.json`` by one that says: look for the record in the catalogue first."""
    write_whole(folder / RECORD_FILE, about.to_json(_REINDEXED))


def kept_record(db: sqlite3.Connection, folder: Path) -> LibraryRecord | None:
    """The record in the catalogue; None if it has none, or a damaged one."""
    kept = read_notes(db, RECORD_NOTE).get(RECORD_NOTE)
    try:
        return None if kept is None else parse_record(kept, str(folder / CATALOGUE_FILE), str(folder))
    except LibraryError:
        return None


def keep_record(db: sqlite3.Connection, folder: Path, record: LibraryRecord) -> None:
    """Keep a copy of the record in the catalogue, in case ``library.json`` is damaged one day.

    A ``library.json`` of an older version gets its checksum.
    """
    if RECORD_NOTE not in read_notes(db, RECORD_NOTE):
        write_notes(db, {RECORD_NOTE: record.to_json()})
        with suppress(DamagedRecord):
            written, version = _read_file(folder)
            if written == record and not _has_checksum(folder):
                write_whole(folder / RECORD_FILE, record.to_json(version))


def record_problem(db: sqlite3.Connection, folder: Path) -> str | None:
    """What is wrong with ``library.json`` or its copy in the catalogue, or None."""
    kept = read_notes(db, RECORD_NOTE).get(RECORD_NOTE)
    try:
        copy = None if kept is None else parse_record(kept, f"the copy of {RECORD_FILE} in the catalogue", str(folder))
        record, version = _read_file(folder)
    except LibraryError as problem:
        return str(problem)
    counts = version < _REINDEXED  # else the copy counts, and the file may be older
    has_checksum = _has_checksum(folder) or (kept is not None and "checksum" not in json.loads(kept))
    same = copy is None or (has_checksum and (record == copy or not counts))
    return None if same else f"{folder / RECORD_FILE} is not what was written: run `prvr library repair`"


def is_record_right(db: sqlite3.Connection, folder: Path) -> bool:
    """Whether ``library.json`` and its copy in the catalogue are what was written, and both are there."""
    return RECORD_NOTE in read_notes(db, RECORD_NOTE) and record_problem(db, folder) is None


def restore_record(db: sqlite3.Connection, folder: Path, record: LibraryRecord) -> None:
    """Write a record again, in both places."""
    write_notes(db, {RECORD_NOTE: record.to_json()})
    write_whole(folder / RECORD_FILE, record.to_json(_REINDEXED))


def is_leftover(path: Path) -> bool:
    """Whether a file was left behind by a process that was killed while it created a library."""
    return path.name.lstrip(".").startswith((RECORD_FILE, "model-"))


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds something, except what a killed process left behind while it created a library."""
    if (folder / RECORD_FILE).exists():
        raise LibraryError(f"{folder} already holds a library: open it, or choose another folder")
    if folder.exists() and (not folder.is_dir() or not all(map(is_leftover, folder.iterdir()))):
        raise LibraryError(f"{folder} holds something else: choose a folder that is empty or does not exist")


def sweep_leftovers(folder: Path) -> None:
    """Delete what processes left behind that were killed while they created the library or changed its record."""
    for path in (*folder.glob(".*"), *folder.glob("*/.*.part")):
        part = path.name.endswith(".part")
        creating = is_leftover(path) and (path.name.startswith("..") or not part)  # the library is there: needless
        with suppress(OSError):
            if creating or (part and time.time() - _last_change(path) > _LEFT_SECONDS):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _last_change(path: Path) -> float:
    """When a file, or anything in a folder, was last written: a model that is being copied takes minutes."""
    return max(each.stat().st_mtime for each in (path, *path.rglob("*")))


def read_record(folder: Path) -> LibraryRecord:
    """Read ``library.json``. If it is damaged, the copy in the catalogue counts."""
    try:
        record, version = _read_file(folder)
    except DamagedRecord:
        with suppress(LibraryError), Catalogue(folder).reading() as db:
            if (kept := kept_record(db, folder)) is not None:
                return kept
        raise
    if version < _REINDEXED:
        return record
    with Catalogue(folder).reading() as db:
        return kept_record(db, folder) or record


def _has_checksum(folder: Path) -> bool:
    return "checksum" in json.loads((folder / RECORD_FILE).read_text("utf-8"))


def _read_file(folder: Path) -> tuple[LibraryRecord, int]:
    """The record in ``library.json``, and the folder's format."""
    path = folder / RECORD_FILE
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise LibraryError(f"{folder} is not a library: it has no {RECORD_FILE}. {_how_to_create(folder)}") from None
    except ValueError as problem:
        raise DamagedRecord(_unreadable(str(path), problem)) from None
    return parse_record(text, str(path), str(folder)), int(json.loads(text)["format"])


def _how_to_create(folder: Path) -> str:
    try:
        require_empty(folder)
    except (LibraryError, OSError):
        return "Name the folder of a library; `prvr library add --library NEW_FOLDER VIDEOS…` creates one"
    return f"`prvr library add --library {folder} VIDEOS…` creates one"


def parse_record(text: str, path: str, library: str) -> LibraryRecord:
    """Read the content of a ``library.json`` that lies at ``path``."""
    try:
        found = json.loads(text)
        checksum, version = found.pop("checksum", None), found["format"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise DamagedRecord(_unreadable(path, problem)) from None
    if not isinstance(version, int) or version > FORMAT:
        raise LibraryError(
            f"{library} was created by a newer prvr (format {version}, version {found.get('made_by', 'unknown')}; "
            f"this is prvr {prvr.__version__}, which reads up to format {FORMAT}): update prvr"
        )
    if checksum is not None and checksum != _checksum(found):
        raise DamagedRecord(_unreadable(path, ValueError("its checksum differs")))
    try:
        known = {field.name for field in fields(LibrarySettings)}
        stored = {"repeats": 0.0, **found["settings"]}  # libraries from before that setting encoded every frame
        given = {name: value for name, value in stored.items() if name in known}
        _require_types(given)
        settings = LibrarySettings(**given)
        model = None if found.get("model") is None else ModelRecord(**found["model"])
        return LibraryRecord(settings, dict(found["recipes"]), model, str(found["made_by"]))
    except (TypeError, KeyError, ValueError, AttributeError) as problem:
        raise DamagedRecord(f"{path} does not describe a library ({problem}): restore it from a copy") from None


def _checksum(values: dict[str, Any]) -> int:
    """Of all values of a record, and of no others: a lake adds its own."""
    known = {name: values.get(name) for name in ("format", *(each.name for each in fields(LibraryRecord)))}
    return zlib.crc32(json.dumps(known, sort_keys=True).encode())


def _unreadable(path: str, problem: Exception) -> str:
    return f"{path} cannot be read ({problem}): restore it from a copy, or create the library again"


def _require_types(given: dict[str, Any]) -> None:
    """Refuse values of a wrong type."""
    for name, hint in get_type_hints(LibrarySettings).items():
        value = given.get(name, getattr(LibrarySettings, name))
        choices = get_args(hint)  # of a Literal, or of a union
        if get_origin(hint) is Literal:
            fits = value in choices
        else:
            kinds = choices or (hint,)
            kinds += (int,) if float in kinds else ()
            fits = isinstance(value, kinds) and not isinstance(value, bool)
        if not fits:
            raise TypeError(f"{name} is {value!r:.40}")
