"""Open the library that an option names: a folder, or an address on object storage with a local copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro
from rich.console import Console

from prvr.library import RECORD_FILE, Library, LibraryError, LibrarySettings
from prvr.objects import WorkingCopy, is_address, open_published, working_copy

LibraryPath: TypeAlias = Annotated[str, tyro.conf.arg(metavar="DIR|URI")]


def default_library() -> str:
    """$PRVR_LIBRARY, or library.prvr in the working folder."""
    return os.environ.get("PRVR_LIBRARY", "library.prvr")


def open_to_read(address: str) -> Library:
    """Open a library to read it; of one on object storage, the local copy, brought up to date first."""
    if not is_address(address):
        return Library.open(address)
    library = open_published(address)
    _print_note(f"reading the copy in {library.folder}")
    return library


def local_folder(address: str) -> Path:
    """The folder in which a library can be read."""
    return open_to_read(address).folder if is_address(address) else Path(address)


@dataclass(frozen=True)
class LibraryChange:
    """A library that a command changes.

    Attributes:
        address: as the person gave it.
        folder: where the files are.
        copy: what is published to object storage; None for a plain folder.
    """

    address: str
    folder: Path
    copy: WorkingCopy | None = None

    def open(self) -> Library:
        if self.copy is not None and not (self.folder / RECORD_FILE).exists():
            raise LibraryError(f"there is no library at {self.address}: create one with `prvr library add`")
        return Library.open(self.folder)

    def publish(self) -> None:
        if self.copy is not None:
            self.copy.publish()

    def check(self) -> None:
        """Raise an error if the changes can no longer be published."""
        if self.copy is not None:
            self.copy.check()


@contextmanager
def open_to_change(address: str) -> Iterator[LibraryChange]:
    """Open a library to change it; one on object storage is published at the end, and from time to time before."""
    if not is_address(address):
        yield LibraryChange(address, Path(address))
        return
    with working_copy(address, _print_note) as copy:
        yield LibraryChange(address, copy.folder, copy)


def open_or_create(folder: Path, settings: LibrarySettings) -> Library:
    """Open the library in a folder, or create it. Settings that differ from an existing library's are an error."""
    if not (folder / RECORD_FILE).exists():
        values = {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
        return Library.create(folder, **values)
    lib, usual = Library.open(folder), LibrarySettings()
    if settings.model is not None:
        lib.require_model(settings.model)
    for setting in fields(settings):
        if setting.name == "model":
            continue
        given, stored = getattr(settings, setting.name), getattr(lib.settings, setting.name)
        if given not in (getattr(usual, setting.name), stored):
            raise LibraryError(
                f"{folder} was created with {setting.name} {stored}, not {given}: leave "
                f"--{setting.name.replace('_', '-')} out, or create another library"
            )
    return lib


def _print_note(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, style="dim", markup=False, soft_wrap=True)
