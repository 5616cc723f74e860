"""Reading a library while other processes change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prvr.library import Library, LibraryError


def test_a_library_whose_arrays_stay_missing_is_an_error_for_people(library: Library, own: Path) -> None:
    library.add([own])
    for shard in library.folder.glob("shards/*"):
        shutil.rmtree(shard)
    with pytest.raises(LibraryError, match=r"is missing: restore it, or run `prvr library repair`"):
        Library.open(library.folder).search("a red square")
