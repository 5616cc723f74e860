"""Copy a library to another place: a folder to a lake, back, or between two of a kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from prvr.files import whole_folder
from prvr.lake.libraries import library_exists, open_library
from prvr.lake.settings import create_tables
from prvr.lake.tables import is_lake
from prvr.library import Library, copy_videos, require_empty, write_record


def copy_library(source: str, target: str, report: Callable[[str], None] = lambda _: None) -> tuple[int, int]:
    """Copy a library; run it again to continue after an interruption, or to copy what is new.

    Args:
        source: folder or address of a library.
        target: where the copy goes; created if there is nothing yet.
        report: called with a line of text from time to time.

    Returns:
        How many videos were copied, and how many were there already.
    """
    origin = open_library(source)
    if not library_exists(target):
        create_alike(origin, target)
    return copy_videos(origin, open_library(target), report)


def create_alike(origin: Library, target: str) -> None:
    """Create an empty library with the settings and the model of another one."""
    record = origin.record
    model = None if record.model is None else origin.store.model_folder()
    if is_lake(target):
        create_tables(target, record, model)
        return
    require_empty(Path(target))
    if record.model is not None and model is not None:
        with whole_folder(Path(target) / record.model.folder) as folder:
            shutil.copytree(model, folder, dirs_exist_ok=True)
    write_record(Path(target), record)
