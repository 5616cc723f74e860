"""Open or create a library by its address, whatever kind it is."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.lake.tables import is_lake
from prvr.library import (
    RECORD_FILE,
    EncoderOverrides,
    FolderStore,
    Library,
    LibrarySettings,
    plan_library,
    read_record,
)

if TYPE_CHECKING:
    from prvr.lake.store import LakeStore


def open_library(address: str | Path, encoders: EncoderOverrides | None = None) -> Library:
    """Open the library in a folder, or the lake at an address.

    Args:
        address: a folder, or where the tables of a lake are.
        encoders: by track, encoders that are open already; the others are loaded when they are first needed.
    """
    address = str(address)
    store = open_lake(address) if is_lake(address) else FolderStore(Path(address), read_record(Path(address)))
    return Library(store, encoders)


def create_library(
    address: str,
    settings: LibrarySettings | None = None,
    encoders: EncoderOverrides | None = None,
    given: Collection[str] = (),
) -> Library:
    """Create an empty library. See ``open_library``.

    ``given``: names of the settings that were asked for, even if their value is the usual one.
    """
    plan = plan_library(settings or LibrarySettings(), encoders or {}, given)
    if not is_lake(address):
        return Library.create_planned(Path(address), plan)
    from prvr.lake.settings import create_tables

    with tempfile.TemporaryDirectory() as folder:
        plan.keep_model(Path(folder))
        model = None if plan.record.model is None else Path(folder) / plan.record.model.folder
        create_tables(address, plan.record, model)
    return Library(open_lake(address), plan.encoders)


def open_lake(address: str) -> LakeStore:
    """Open the lake at an address."""
    from prvr.lake.settings import newest_place, read_lake_record
    from prvr.lake.store import LakeStore

    place = newest_place(address.rstrip("/"))
    return LakeStore(address, read_lake_record(place), place)


def library_exists(address: str) -> bool:
    """Whether there is a library in a folder or at an address."""
    if not is_lake(address):
        return (Path(address) / RECORD_FILE).exists()
    from prvr.lake.settings import lake_exists

    return lake_exists(address)
