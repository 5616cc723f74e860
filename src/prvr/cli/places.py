"""Where a library lies: in a folder, or published on object storage and worked on in a local copy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro
from rich.console import Console

from prvr.library import Library, LibraryError, LibrarySettings
from prvr.library.store.settings import FILE
from prvr.objects import WorkingCopy, is_address, open_published, working_copy

Where: TypeAlias = Annotated[str, tyro.conf.arg(metavar="DIR|URI")]


def default_library() -> str:
    """$PRVR_LIBRARY, or a folder here."""
    return os.environ.get("PRVR_LIBRARY", "library.prvr")


def opened(where: str) -> Library:
    """A library to look at; of one on object storage, the local copy, brought up to date first."""
    if not is_address(where):
        return Library.open(where)
    library = open_published(where)
    _say(f"looking at the copy in {library.folder}")
    return library


def local_folder(where: str) -> Path:
    """The folder in which a library can be looked at."""
    return opened(where).folder if is_address(where) else Path(where)


@dataclass(frozen=True)
class Place:
    """A library that is being changed."""

    where: str
    folder: Path
    copy: WorkingCopy | None = None  # where it is published from

    def open(self) -> Library:
        if self.copy is not None and not (self.folder / FILE).exists():
            raise LibraryError(f"no library was published at {self.where}")
        return Library.open(self.folder)

    def publish(self) -> None:
        if self.copy is not None:
            self.copy.publish()

    def check(self) -> None:
        """Stop what can no longer be published."""
        if self.copy is not None:
            self.copy.check()


@contextmanager
def changing(where: str) -> Iterator[Place]:
    """A library to change; one on object storage is published at the end, and now and then before."""
    if not is_address(where):
        yield Place(where, Path(where))
        return
    with working_copy(where, _say) as copy:
        yield Place(where, copy.folder, copy)


def open_or_create(folder: Path, settings: LibrarySettings) -> Library:
    """The library in a folder; settings that were asked for must be the library's own."""
    if not (folder / FILE).exists():
        given = {each.name: getattr(settings, each.name) for each in fields(settings)}
        return Library.create(folder, **given)
    lib, usual = Library.open(folder), LibrarySettings()
    if settings.model is not None:
        lib.require_model(settings.model)
    for each in fields(settings):
        if each.name == "model":
            continue
        asked, is_so = getattr(settings, each.name), getattr(lib.settings, each.name)
        if asked not in (getattr(usual, each.name), is_so):
            raise LibraryError(
                f"{folder} was made with {each.name} {is_so}, not {asked}: leave --{each.name.replace('_', '-')} out, "
                "or make another library"
            )
    return lib


def refuse_addresses(paths: Sequence[str]) -> None:
    """Videos are opened by name, seeked in and looked at again: they must be files."""
    for path in paths:
        if is_address(path):
            raise LibraryError(
                f"{path}: a library may lie on object storage, but videos must be files; copy them here or mount the "
                "bucket"
            )


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, style="dim", markup=False, soft_wrap=True)
