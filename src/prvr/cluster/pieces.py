"""Pieces: finished videos that workers write and the adding process commits, one file ``pieces/KEY`` for each.

This file stores them on a file system that all nodes share, ``object_pieces.py`` on object storage.

The key depends on the file (name, size, time, content) and on the library's settings. A task that Ray runs twice
writes the same piece twice under one name, and a piece that was finished before a crash is used again.
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
from prvr.library import IndexedVideo, LibraryRecord, NewVideo, Section, SectionBuffer, absolute_path
from prvr.media import TimedLine

PIECES = "pieces"
MOST_TRIES = 5  # attempts before a file is given up: it crashes its decoder, or five nodes were lost while decoding it
_NOT_STORED = ("path", "size", "mtime", "tags", "added")  # facts that the adding process knows itself


def piece_key(video: NewVideo, record: LibraryRecord) -> str:
    """The name of a video's piece."""
    source = {"path": str(video.path), **{name: getattr(video, name) for name in ("size", "mtime", "digest")}}
    parts = [source, video.subtitles, asdict(record)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def pack_video(indexed: IndexedVideo) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The content of a piece's file: arrays, and the rest as metadata."""
    arrays: dict[str, Tensor] = {}
    tracks = {}
    for track, sections in indexed.tracks.items():
        described = []
        for number, section in enumerate(sections):
            arrays |= {f"{track}/{number}/{name}": array.contiguous() for name, array in section.arrays.items()}
            described.append({"about": section.about, "tokens": section.tokens, "arrays": list(section.arrays)})
        tracks[track] = described
    facts = {name: value for name, value in asdict(indexed.video).items() if name not in _NOT_STORED}
    about = {"video": facts, "lines": [asdict(line) for line in indexed.lines], "tracks": tracks}
    return arrays, {"piece": json.dumps(about)}


def unpack_video(path: Path, folder: Path, video: NewVideo) -> IndexedVideo | None:
    """Read a piece's file; None if it is damaged.

    Args:
        path: the file.
        folder: for temporary files of large videos.
        video: what the adding process knows of the video.
    """
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads(file.metadata()["piece"])
            tracks = {}
            for track, sections in about["tracks"].items():
                tracks[track] = SectionBuffer(folder)
                for number, section in enumerate(sections):
                    arrays = {name: file.get_tensor(f"{track}/{number}/{name}") for name in section["arrays"]}
                    tracks[track].add(Section(section["about"], arrays, section["tokens"]))
            lines = tuple(TimedLine(**line) for line in about["lines"])
            return IndexedVideo(replace(video, **about["video"]), tracks, lines)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Pieces(Protocol):
    """The pieces of one library."""

    address: str  # of the library, for workers

    def has(self, key: str) -> bool:
        """Whether a piece exists."""

    def write(self, key: str, indexed: IndexedVideo) -> None:
        """Write a piece. Others see all of it or nothing."""

    def read(self, key: str, video: NewVideo) -> IndexedVideo | None:
        """Read a piece; None if it is damaged, and then it is deleted."""

    def begin(self, key: str) -> bool:
        """Note that decoding a file starts. False if it has started too often without ending."""

    def end(self, key: str) -> None:
        """Note that a file was decoded, or cannot be read."""

    def forget_tries(self) -> None:
        """Tries count within one run of the command, so interrupting it never gives up a file."""

    def drop(self, keys: Iterable[str]) -> None:
        """Delete pieces that are committed."""

    def tidy(self) -> None:
        """At the end, delete what is left: tries, and pieces of files that have changed since."""


class FolderPieces:
    """Pieces in a library's folder."""

    def __init__(self, folder: Path):
        self.library, self.address = folder, str(absolute_path(folder))
        self.folder = folder / PIECES

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def has(self, key: str) -> bool:
        """Whether a piece exists. An incomplete one is deleted."""
        if not self.path(key).exists():
            return False
        try:
            with safe_open(self.path(key), "pt"):
                return True
        except SafetensorError:
            self.path(key).unlink(missing_ok=True)
            return False

    def write(self, key: str, indexed: IndexedVideo) -> None:
        """Write a temporary file, then rename it: another node sees all of it or nothing."""
        arrays, about = pack_video(indexed)
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{key}.{uuid.uuid4().hex}.part"  # two nodes may have equal process numbers
        try:
            save_file(arrays, beside, about)
            sync_folder(beside)
            os.replace(beside, self.path(key))
            sync_folder(self.folder)
        finally:
            beside.unlink(missing_ok=True)

    def read(self, key: str, video: NewVideo) -> IndexedVideo | None:
        """Read a piece; None if it is damaged, and then it is deleted."""
        indexed = unpack_video(self.path(key), self.library, video)
        if indexed is None:
            self.path(key).unlink(missing_ok=True)
        return indexed

    # -- files that crash their decoder ------------------------------------------------------------------------------

    def begin(self, key: str) -> bool:
        """Note that decoding a file starts. False if it has started too often without ending."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._tries(key).open("ab") as file:
            file.write(b".")
            return file.tell() <= MOST_TRIES

    def end(self, key: str) -> None:
        self._tries(key).unlink(missing_ok=True)

    def forget_tries(self) -> None:
        """Tries count within one run of the command, so interrupting it never gives up a file."""
        for path in self.folder.glob("*.tries"):
            path.unlink(missing_ok=True)

    def _tries(self, key: str) -> Path:
        return self.folder / f"{key}.tries"

    # -- tidying ------------------------------------------------------------------------------------------------------

    def drop(self, keys: Iterable[str]) -> None:
        """Delete pieces that are committed."""
        for key in keys:
            self.path(key).unlink(missing_ok=True)
            self.end(key)

    def tidy(self) -> None:
        """At the end, delete what is left: tries, and pieces of files that have changed since."""
        shutil.rmtree(self.folder, ignore_errors=True)  # a task that Ray ran twice may be writing there
