"""Open the library that an option names: a folder, or the address of a lake."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
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
GivenSettings: TypeAlias = Annotated[tuple[str, ...], tyro.conf.Suppress]  # filled from ``given_settings``


def default_library() -> str:
    """$PRVR_LIBRARY, or library.prvr in the working folder."""
    return os.environ.get("PRVR_LIBRARY", "library.prvr")


def given_settings(argv: Sequence[str]) -> tuple[str, ...]:
    """The settings of a library that a command line gives, also those whose value is the usual one.

    >>> given_settings(["FILMS", "--rate", "1", "--text_encoder=minilm", "--tags", "holiday"])
    ('rate', 'text_encoder')
    """
    options = {word.partition("=")[0].replace("-", "_") for word in argv}
    return tuple(setting.name for setting in fields(LibrarySettings) if f"__{setting.name}" in options)


def open_or_create(address: str, settings: LibrarySettings, given: Collection[str] = ()) -> Library:
    """Open a library, or create it. Settings that differ from an existing library's are an error.

    ``given``: names of the settings that were asked for, even if their value is the usual one.
    """
    if not library_exists(address):
        from prvr.cli.choice import choose_encoder

        return create_library(address, choose_encoder(settings), given=given)
    lib, usual = open_library(address), LibrarySettings()
    if settings.model is not None:
        lib.require_model(settings.model)
    for setting in fields(settings):
        name, value, stored = setting.name, getattr(settings, setting.name), getattr(lib.settings, setting.name)
        if name == "model" or (value == getattr(usual, name) and (name not in given or value == "")):
            continue
        if name == "encoder":
            value, stored = shown_encoder(value), shown_encoder(stored)
        if value != stored:
            raise LibraryError(_difference(lib, name, value, stored))
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
