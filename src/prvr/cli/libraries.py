"""Open the library that an option names: a folder, or the address of a lake."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated, TypeAlias

import tyro

from prvr.lake import create_library, library_exists, open_library
from prvr.library import Library, LibraryError, LibrarySettings, library_limits
from prvr.terminal import Console

REINDEXED = ("encoder", "rate", "repeats")  # settings that `prvr library reindex` changes
LibraryPath: TypeAlias = Annotated[str, tyro.conf.arg(metavar="DIR|URI")]


def default_library() -> str:
    """$PRVR_LIBRARY, or library.prvr in the working folder."""
    return os.environ.get("PRVR_LIBRARY", "library.prvr")


def open_or_create(address: str, settings: LibrarySettings) -> Library:
    """Open a library, or create it. Settings that differ from an existing library's are an error."""
    if not library_exists(address):
        from prvr.cli.choice import choose_encoder

        return create_library(address, choose_encoder(settings))
    lib, usual = open_library(address), LibrarySettings()
    if settings.model is not None:
        lib.require_model(settings.model)
    for setting in fields(settings):
        if setting.name == "model":
            continue
        given, stored = getattr(settings, setting.name), getattr(lib.settings, setting.name)
        if given not in (getattr(usual, setting.name), stored):
            option = f"--{setting.name.replace('_', '-')}"
            change = f"change it with `prvr library reindex {option} {given}`, " if setting.name in REINDEXED else ""
            option = "--every-frame" if setting.name == "repeats" and given == 0 else option
            raise LibraryError(
                f"{address} was created with {setting.name} {stored}, not {given}: leave {option} out, {change}or "
                "create another library"
            )
    return lib


def print_limits(lib: Library) -> None:
    """Print what a reader must know about the answers of a library with `plain`; nothing for other encoders."""
    limits = library_limits(lib.record)
    if limits is not None:
        Console(stderr=True, highlight=False, soft_wrap=True).print(limits, style="dim", markup=False)
