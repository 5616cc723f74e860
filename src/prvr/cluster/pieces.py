"""What workers leave for the one who commits: a file for each video, ``pieces/KEY``, whole or not at all.

On a file system that all nodes share here, on object storage in ``object_pieces.py``.

The key follows from the file (name, size, time, content) and from how the library looks at videos. A task that Ray runs
twice writes the same piece twice under one name; a piece that was finished before a crash is used and not made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from prvr.files import sync_folder
from prvr.library.ingest.files import absolute
from prvr.library.store.arrays import Section
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.pending import Indexed, Pending
from prvr.library.store.settings import About
from prvr.media.subtitles import TimedLine

PIECES = "pieces"
MOST_TRIES = 5  # begun and never ended: a file that kills its decoder, or five nodes lost at the same file
_OWN = (
    "path",
    "size",
    "mtime",
    "tags",
    "added",
)  # facts that whoever commits knows; a piece tells the others


def piece_key(video: NewVideo, about: About) -> str:
    """The name of a video's piece."""
    source = {"path": str(video.path), **{name: getattr(video, name) for name in ("size", "mtime", "digest")}}
    parts = [source, video.subtitles, asdict(about)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def packed(item: Indexed) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What a piece's file holds: arrays, and the rest as its metadata."""
    arrays: dict[str, Tensor] = {}
    tracks = {}
    for track, sections in item.tracks.items():
        told = []
        for number, section in enumerate(sections):
            arrays |= {f"{track}/{number}/{name}": array.contiguous() for name, array in section.arrays.items()}
            told.append({"about": section.about, "tokens": section.tokens, "arrays": list(section.arrays)})
        tracks[track] = told
    facts = {name: value for name, value in asdict(item.video).items() if name not in _OWN}
    about = {"video": facts, "lines": [asdict(line) for line in item.lines], "tracks": tracks}
    return arrays, {"piece": json.dumps(about)}


def unpacked(path: Path, library: Path, video: NewVideo) -> Indexed | None:
    """What a piece's file says of a video; None where it is damaged. ``library``: a folder for what is large."""
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads(file.metadata()["piece"])
            tracks = {}
            for track, sections in about["tracks"].items():
                tracks[track] = Pending(library)
                for number, told in enumerate(sections):
                    arrays = {name: file.get_tensor(f"{track}/{number}/{name}") for name in told["arrays"]}
                    tracks[track].add(Section(told["about"], arrays, told["tokens"]))
            lines = tuple(TimedLine(**line) for line in about["lines"])
            return Indexed(replace(video, **about["video"]), tracks, lines)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Pieces(Protocol):
    """The pieces of one library."""

    address: str  # of the library, for workers

    def has(self, key: str) -> bool:
        """Whether a piece is there."""

    def write(self, key: str, item: Indexed) -> None:
        """Leave a piece; others see all of it or nothing."""

    def read(self, key: str, video: NewVideo) -> Indexed | None:
        """A finished piece, as what is to be committed; None (and it goes) where it is damaged."""

    def begin(self, key: str) -> bool:
        """Note that somebody decodes a file now; False where that has been begun too often and never ended."""

    def end(self, key: str) -> None:
        """A file was decoded, or is known to be unreadable."""

    def begin_anew(self) -> None:
        """Tries count within one run of the command: interrupting it as often as one likes gives no file up."""

    def drop(self, keys: Iterable[str]) -> None:
        """Pieces that are committed."""

    def tidy(self) -> None:
        """At the end of everything: what was begun and given up, or belongs to files that have changed since."""


class FolderPieces:
    """Pieces in a library's folder."""

    def __init__(self, folder: Path):
        self.library, self.address = folder, str(absolute(folder))
        self.folder = folder / PIECES

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def has(self, key: str) -> bool:
        """Whether a piece is there, and as long as it says; a shorter one goes."""
        if not self.path(key).exists():
            return False
        try:
            with safe_open(self.path(key), "pt"):
                return True
        except SafetensorError:
            self.path(key).unlink(missing_ok=True)
            return False

    def write(self, key: str, item: Indexed) -> None:
        """Write beside its place, then rename: another node sees all of it or nothing."""
        arrays, about = packed(item)
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{key}.{uuid.uuid4().hex}.part"  # two nodes may have equal process numbers
        try:
            save_file(arrays, beside, about)
            sync_folder(beside)
            os.replace(beside, self.path(key))
            sync_folder(self.folder)
        finally:
            beside.unlink(missing_ok=True)

    def read(self, key: str, video: NewVideo) -> Indexed | None:
        """A finished piece, as what is to be committed; None (and it goes) where it is damaged."""
        found = unpacked(self.path(key), self.library, video)
        if found is None:
            self.path(key).unlink(missing_ok=True)
        return found

    # -- files that kill whoever opens them ---------------------------------------------------------------------------

    def begin(self, key: str) -> bool:
        """Note that somebody decodes a file now; False where that has been begun too often and never ended."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._tries(key).open("ab") as file:
            file.write(b".")
            return file.tell() <= MOST_TRIES

    def end(self, key: str) -> None:
        self._tries(key).unlink(missing_ok=True)

    def begin_anew(self) -> None:
        """Tries count within one run of the command: interrupting it as often as one likes gives no file up."""
        for path in self.folder.glob("*.tries"):
            path.unlink(missing_ok=True)

    def _tries(self, key: str) -> Path:
        return self.folder / f"{key}.tries"

    # -- tidying ------------------------------------------------------------------------------------------------------

    def drop(self, keys: Iterable[str]) -> None:
        """Pieces that are committed."""
        for key in keys:
            self.path(key).unlink(missing_ok=True)
            self.end(key)

    def tidy(self) -> None:
        """At the end of everything: what was begun and given up, or belongs to files that have changed since."""
        shutil.rmtree(self.folder, ignore_errors=True)  # a task that Ray ran twice may just be leaving its piece there
