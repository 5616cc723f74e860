"""What a library was made with, decided once: ``library.json``.

The file never changes after the library is made. It says which format the folder has, so that an older program
refuses a newer library instead of damaging it, and which encoders its vectors come from.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from prvr import __version__
from prvr.files import write_whole
from prvr.library.errors import LibraryError
from prvr.library.store.model import ModelRecord

FORMAT = 2  # the newest that is read; a library is written in the oldest that can hold it: 2 where it has a model
FILE = "library.json"
_LONGEST_WINDOW = 1e6  # seconds


@dataclass(frozen=True)
class LibrarySettings:
    """How videos are turned into what is searched."""

    encoder: str = "plain"
    """plain, a folder, or a hub name that `prvr prepare` has fetched"""
    rate: float = 1.0
    """frames per second that are looked at"""
    text_encoder: str | None = None
    """encoder of subtitles: a folder or a prepared name such as minilm; none: subtitles are not searched"""
    local: Literal["windows", "frames", "moments"] = "windows"
    """what a search looks at: stretches of a few seconds, single frames, or adaptive moments"""
    window: float = 2.0
    """seconds of a stretch"""
    stride: float = 1.0
    """seconds from one stretch to the next"""
    storage: Literal["fp16", "int8", "fp32"] = "fp16"
    """type that vectors are kept in"""
    model: str | None = None
    """folder of a trained run to search with instead of the encoder's own space; encoder and rate are then the run's"""

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1000:
            raise LibraryError(f"frames are looked at at a rate between 0 and 1000 per second, not {self.rate}")
        if not (0 < self.stride <= self.window <= _LONGEST_WINDOW):
            raise LibraryError(
                f"a stride is above 0 and at most a window, and that at most {_LONGEST_WINDOW:g} seconds, not "
                f"{self.stride!s:.20} of {self.window!s:.20}"
            )
        usual = {each.name: each.default for each in fields(self) if each.name in ("local", "window", "stride")}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        if self.model is not None and changed:
            raise LibraryError(f"a trained model has local tokens of its own: leave out --{' and --'.join(changed)}")


@dataclass(frozen=True)
class About:
    """The content of ``library.json``."""

    settings: LibrarySettings
    recipes: dict[str, dict[str, Any]]  # by track: how its vectors were made
    model: ModelRecord | None = None
    made_by: str = __version__

    @property
    def format(self) -> int:
        return 1 if self.model is None else 2


def write_about(folder: Path, about: About) -> bool:
    """Write ``library.json`` unless it is there; False where another process was first."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{FILE}.{os.getpid()}"
    write_whole(beside, json.dumps({**asdict(about), "format": about.format}, indent=1) + "\n")
    try:
        os.link(beside, folder / FILE)  # unlike a rename, never replaces
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if (folder / FILE).exists():
            return False
        os.replace(beside, folder / FILE)
    finally:
        beside.unlink(missing_ok=True)
    return True


def unfinished(path: Path) -> bool:
    """Whether something in a folder is what a kill left of making a library there: no reason not to make it."""
    return path.name.startswith((f".{FILE}", "model-", ".model-"))


def read_about(folder: Path) -> About:
    path = folder / FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        version = found["format"]
    except (FileNotFoundError, NotADirectoryError):
        raise LibraryError(
            f"{folder} is no library: it has no {FILE}. `prvr library add --library {folder} VIDEOS…` makes one"
        ) from None
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise LibraryError(
            f"{path} cannot be read ({problem}): restore it from a copy, or make the library anew"
        ) from None
    if not isinstance(version, int) or version > FORMAT:
        raise LibraryError(
            f"{folder} was made by a newer prvr (format {version}, made by {found.get('made_by', 'unknown')}; "
            f"this is prvr {__version__}, which reads up to format {FORMAT}): update prvr"
        )
    try:
        known = {field.name for field in fields(LibrarySettings)}
        given = {name: value for name, value in found["settings"].items() if name in known}
        _require_types(given)
        settings = LibrarySettings(**given)
        model = None if found.get("model") is None else ModelRecord(**found["model"])
        return About(settings, dict(found["recipes"]), model, str(found["made_by"]))
    except (TypeError, KeyError, ValueError, AttributeError) as problem:
        raise LibraryError(f"{path} does not describe a library ({problem}): restore it from a copy") from None


def _require_types(given: dict[str, Any]) -> None:
    """Refuse values that the settings cannot hold, whatever wrote them."""
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
