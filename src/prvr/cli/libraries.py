"""Open the library that an option names: a folder, or the address of a lake."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated, TypeAlias

import tyro

from prvr.lake import create_library, library_exists, open_library
from prvr.library import Library, LibraryError, LibrarySettings, library_limits
from prvr.media import PlainEncoder
from prvr.terminal import Console

REINDEXED = ("encoder", "rate", "repeats")  # settings that `prvr library reindex` changes, without a model
FIXED_BY_MODEL = ("encoder", "rate")
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
        if setting.name == "encoder":
            given, stored = shown_encoder(given), shown_encoder(stored)
        if given not in (getattr(usual, setting.name), stored):
            raise LibraryError(_difference(lib, setting.name, given, stored))
    return lib


def shown_encoder(name: str) -> str:
    """An encoder's name as people give it: `plain` for its numbered name too."""
    return "plain" if name in PlainEncoder.names else name


def _difference(lib: Library, name: str, given: object, stored: object) -> str:
    """Say that a setting is not the library's, and what can be done about it."""
    option, model, advice = f"--{name.replace('_', '-')}", lib.record.model, ""
    leave_out = "leave --every-frame out, " if name == "repeats" and given == 0 else f"leave {option} out, "
    if model is None and name in REINDEXED:
        advice = f"change it with `prvr library reindex {option} {given}`, "
    elif model is not None and name in FIXED_BY_MODEL:
        leave_out = f"its trained {model.method} fixes encoder and rate, so {leave_out}"
    return f"{lib.address} was created with {name} {stored}, not {given}: {leave_out}{advice}or create another library"


def print_limits(lib: Library) -> None:
    """Print what a reader must know about the answers of a library with `plain`; nothing for other encoders."""
    limits = library_limits(lib.record)
    if limits is not None:
        Console(stderr=True, highlight=False, soft_wrap=True).print(limits, style="dim")
