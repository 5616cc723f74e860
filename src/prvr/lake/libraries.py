"""Open or create a library by its address, whatever kind it is."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path

from prvr.lake.store import create_lake, lake_exists, open_lake
from prvr.lake.tables import is_lake
from prvr.library import RECORD_FILE, Library, LibrarySettings, plan_library


def open_library(address: str | Path) -> Library:
    """Open the library in a folder, or the lake at an address."""
    address = str(address)
    return Library(open_lake(address)) if is_lake(address) else Library.open(address)


def create_library(address: str, settings: LibrarySettings | None = None) -> Library:
    """Create an empty library."""
    settings = settings or LibrarySettings()
    if not is_lake(address):
        return Library.create(address, **{each.name: getattr(settings, each.name) for each in fields(settings)})
    plan = plan_library(settings, {})
    with tempfile.TemporaryDirectory() as folder:
        plan.keep_model(Path(folder))
        model = None if plan.record.model is None else Path(folder) / plan.record.model.folder
        return Library(create_lake(address, plan.record, model), plan.encoders)


def library_exists(address: str) -> bool:
    """Whether there is a library in a folder or at an address."""
    return lake_exists(address) if is_lake(address) else (Path(address) / RECORD_FILE).exists()
