"""The settings of a library, decided once and kept in ``library.json``.

The file names the folder's format, so that an older program refuses a newer library instead of damaging it, and the
encoders that its vectors come from. Only ``reindex`` changes them: the catalogue then holds the record that counts, so
that record and vectors change in one transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from prvr import __version__
from prvr.files import write_whole
from prvr.library.errors import LibraryError
from prvr.library.store.catalogue import CATALOGUE_FILE, Catalogue, read_notes
from prvr.library.store.model import ModelRecord
from prvr.media import USUAL_REPEATS, Backend

FORMAT = (
    3  # the newest this program reads; 1: no trained model, 2: with one, 3: reindexed, or its encoder's own sentences
)
_REINDEXED = 3
BackgroundKind = Literal["common", "encoder"]
RECORD_FILE = "library.json"
RECORD_NOTE = "record"  # the name of the record in the catalogue of a library that was reindexed
_LONGEST_WINDOW = 1e6  # seconds


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
    made_by: str = __version__

    @property
    def format(self) -> int:
        return 1 if self.model is None else 2

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "format": self.format}, indent=1) + "\n"


def write_record(folder: Path, about: LibraryRecord) -> bool:
    """Write ``library.json`` unless it exists. Returns False if another process was first."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{RECORD_FILE}.{os.getpid()}"
    write_whole(temporary, about.to_json())
    try:
        os.link(temporary, folder / RECORD_FILE)  # unlike a rename, a link never replaces
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if (folder / RECORD_FILE).exists():
            return False
        os.replace(temporary, folder / RECORD_FILE)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def write_reindexed_record(folder: Path, about: LibraryRecord) -> None:
    """Replace ``library.json`` by one that says: look for the record in the catalogue first."""
    write_whole(
        folder / RECORD_FILE, json.dumps({**json.loads(about.to_json()), "format": _REINDEXED}, indent=1) + "\n"
    )


def kept_record(db: sqlite3.Connection, folder: Path) -> LibraryRecord | None:
    """The record in the catalogue; None if the library was never reindexed."""
    kept = read_notes(db, RECORD_NOTE).get(RECORD_NOTE)
    return None if kept is None else parse_record(kept, str(folder / CATALOGUE_FILE), str(folder))


def is_leftover(path: Path) -> bool:
    """Whether a file was left behind by a process that was killed while it created a library."""
    return path.name.lstrip(".").startswith((RECORD_FILE, "model-"))


def read_record(folder: Path) -> LibraryRecord:
    path = folder / RECORD_FILE
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise LibraryError(
            f"{folder} is not a library: it has no {RECORD_FILE}. "
            f"`prvr library add --library {folder} VIDEOS…` creates one"
        ) from None
    except ValueError as problem:
        raise LibraryError(_unreadable(str(path), problem)) from None
    record = parse_record(text, str(path), str(folder))
    if json.loads(text)["format"] < _REINDEXED:
        return record
    with Catalogue(folder).reading() as db:
        return kept_record(db, folder) or record


def parse_record(text: str, path: str, library: str) -> LibraryRecord:
    """Read the content of a ``library.json`` that lies at ``path``."""
    try:
        found = json.loads(text)
        version = found["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise LibraryError(_unreadable(path, problem)) from None
    if not isinstance(version, int) or version > FORMAT:
        raise LibraryError(
            f"{library} was created by a newer prvr (format {version}, version {found.get('made_by', 'unknown')}; "
            f"this is prvr {__version__}, which reads up to format {FORMAT}): update prvr"
        )
    try:
        known = {field.name for field in fields(LibrarySettings)}
        stored = {"repeats": 0.0, **found["settings"]}  # libraries from before that setting encoded every frame
        given = {name: value for name, value in stored.items() if name in known}
        _require_types(given)
        settings = LibrarySettings(**given)
        model = None if found.get("model") is None else ModelRecord(**found["model"])
        return LibraryRecord(settings, dict(found["recipes"]), model, str(found["made_by"]))
    except (TypeError, KeyError, ValueError, AttributeError) as problem:
        raise LibraryError(f"{path} does not describe a library ({problem}): restore it from a copy") from None


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
