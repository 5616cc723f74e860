"""Folders that videos may be added from, and names of folders for clients, who never see a path of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prvr.library import VIDEO_SUFFIXES, Video, find_videos
from prvr.media import subtitle_files
from prvr.server.problems import Problem

_SHOWN = 500  # folders of one level


@dataclass(frozen=True)
class Folder:
    """A folder inside an allowed root."""

    root: str
    path: str  # "" is the root itself
    videos: int  # video files directly in it


@dataclass(frozen=True)
class Found:
    """Files to add, and how many were left out because a link leads out of the root."""

    files: tuple[Path, ...]
    outside: int


class Roots:
    """Allowed folders by name."""

    def __init__(self, folders: Iterable[Path]):
        self.by_name: dict[str, Path] = {}
        for folder in folders:
            real, number = folder.resolve(), 1
            name = real.name or "root"
            while (name if number == 1 else f"{name}-{number}") in self.by_name:
                number += 1
            self.by_name[name if number == 1 else f"{name}-{number}"] = real

    def resolve(self, root: str, path: str) -> Path:
        """A path inside a root. A path that leads out of it, by name or by link, is refused."""
        if root not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none: start the server with --allow-root DIR"
            raise Problem(403, f"{root!r} is not one of the folders that may be added from", f"choose one of: {known}")
        base = self.by_name[root]
        parts = PurePosixPath(path).parts
        outside = Problem(403, f"this leads out of {root!r}", "name a file or a folder inside it, without ..")
        if "\\" in path or "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
            raise outside
        try:
            place = base.joinpath(*parts)
            real = place.resolve()
            there = os.path.lexists(place)
        except (OSError, ValueError, RuntimeError):
            raise Problem(404, "there is no such folder or file", "list the folders: GET /v1/folders") from None
        if not real.is_relative_to(base):
            raise outside
        if not there or not real.exists():
            raise Problem(404, f"there is nothing of that name in {root!r}", "list the folders: GET /v1/folders")
        return place

    def files(self, root: str, path: str) -> Found:
        """Videos in a folder. One that a link leads out of the root, or whose subtitles are, is left out."""
        base, place = self.by_name.get(root), self.resolve(root, path)
        assert base is not None
        found = find_videos([place])
        inside = tuple(
            video
            for video in found
            if all(each.resolve().is_relative_to(base) for each in (video, *subtitle_files(video)))
        )
        return Found(inside, len(found) - len(inside))

    def folders(self, root: str, path: str) -> list[Folder]:
        """The place itself and the folders right in it."""
        place = self.resolve(root, path)
        if not place.is_dir():
            raise Problem(404, "this is a file, not a folder", "add it as it is: POST /v1/videos")
        try:
            inner = sorted(each.name for each in os.scandir(place) if each.is_dir(follow_symlinks=False))
        except OSError:
            raise Problem(403, "this folder may not be read", "let the server's user read it") from None
        prefix = PurePosixPath(path)
        names = [prefix, *(prefix / name for name in inner[:_SHOWN] if not name.startswith("."))]
        return [Folder(root, "" if str(name) == "." else str(name), _count(place, name, prefix)) for name in names]


def _count(place: Path, name: PurePosixPath, prefix: PurePosixPath) -> int:
    folder = place if name == prefix else place / name.name
    try:
        return sum(Path(each.name).suffix.lower() in VIDEO_SUFFIXES for each in os.scandir(folder))
    except OSError:
        return 0


class Places:
    """Folders of the library's videos, named relative to the folder that holds them all."""

    def __init__(self, videos: Iterable[Video]):
        parents = {str(video.path.parent) for video in videos}
        self.base = Path(os.path.commonpath(parents)) if parents else Path("/")
        self.told: dict[int, object] = {}  # descriptions of videos, cached

    def name(self, video: Video) -> str:
        parent = video.path.parent
        inner = parent.relative_to(self.base).as_posix() if parent.is_relative_to(self.base) else "."
        return "" if inner == "." else inner

    def path(self, name: str) -> Path:
        """The path of a folder, to compare with paths in the catalogue; it is never opened."""
        return self.base / PurePosixPath(name).as_posix().lstrip("/")
