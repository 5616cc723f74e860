"""Files that are cut and restored while a library is searched, and limits of the system."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from prvr.library import Library, LibraryError, SearchRequest, SearchResult
from prvr.library.copying import read_indexed
from prvr.library.store import arrays, buffers, sections, shards
from prvr.library.store.buffers import BufferPool
from prvr.library.store.catalogue import Catalogue
from prvr.library.store.shard_files import CACHE_MEGABYTES, MEMORY, ShardFiles

ASKED = SearchRequest(query="a red square", limit=50)


@pytest.fixture
def copied(whole: Library, tmp_path: Path) -> Library:
    """Sixteen videos in one shard."""
    shutil.copytree(whole.folder, tmp_path / "library")
    return Library.open(tmp_path / "library")


@pytest.fixture
def divided(whole: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The same videos, each in a shard of its own."""
    monkeypatch.setattr(arrays, "SHARD_LIMIT", 1)
    library = Library.create(tmp_path / "library", encoder="plain", rate=whole.settings.rate)
    snapshot = whole.snapshot()
    library.store.commit([read_indexed(whole, snapshot, video) for video in whole.videos("ok")])
    return library


def values(library: Library) -> Path:
    return min(library.folder.glob("shards/*/local.values.bin"))


def videos(result: SearchResult) -> list[int]:
    return [hit.video.id for hit in result]


@pytest.mark.parametrize("array", ["local.values", "background"])
def test_a_file_that_is_cut_during_a_search_and_stays_cut(
    array: str, copied: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_SMALL_ROWS", 0)  # as if it were too large to be read when it is opened
    snapshot, file = copied.snapshot(), values(copied).with_name(f"{array}.bin")
    content = file.read_bytes()
    os.truncate(file, len(content) * 3 // 4)
    (result,) = copied.search_many([ASKED], snapshot)
    assert 0 < len(result) < 16
    assert f"{16 - len(result)} damaged videos were left out" in result.message
    assert videos(copied.search_many([ASKED])[0]) == videos(result)
    file.write_bytes(content)
    (again,) = copied.search_many([ASKED])
    assert (len(again), copied.damage()) == (16, "")


@pytest.mark.parametrize("rows", [0, 2048], ids=["large", "small"])
def test_a_disk_that_fails_at_one_place_loses_one_video(
    rows: int, copied: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of no video that cannot be read harm nothing, so later searches read the block again.

    The zeros that stand for them are never taken for vectors, in no later state of the library.
    """
    monkeypatch.setattr(shards, "_SMALL_ROWS", rows)
    monkeypatch.setattr(MEMORY, "eager", True)  # as in a server
    everything = videos(copied.search_many([ASKED])[0])
    file = values(copied)
    broken, read = file.stat().st_size // 2, ShardFiles._read_some

    def failing(files: ShardFiles, handle: int, place: int, into: memoryview) -> int:
        if os.path.samestat(os.fstat(handle), file.stat()) and place <= broken < place + len(into):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(files, handle, place, into)

    monkeypatch.setattr(ShardFiles, "_read_some", failing)
    damaged = Library.open(copied.folder)
    for _ in range(3):
        (result,) = damaged.search_many([ASKED])
        assert "1 damaged video was left out" in result.message
        assert len(result) == 15
        assert videos(result) == [video for video in everything if video in videos(result)]
    damaged.store.add_tags([1], ["new"])
    (few,) = damaged.search_many([replace(ASKED, limit=3)])  # compares no checksums of videos that are not shown
    assert "1 damaged video was left out" in few.message
    monkeypatch.setattr(ShardFiles, "_read_some", read)
    damaged.store.add_tags([1], ["newer"])
    assert videos(damaged.search_many([ASKED])[0]) == everything


def test_a_library_that_does_not_fit_is_read_into_the_same_memory(
    copied: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_SMALL_ROWS", 0)
    monkeypatch.setitem(vars(MEMORY), "most", MEMORY.used)
    asked: list[Sequence[int]] = []

    class Pool(BufferPool):
        def empty(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
            asked.append(shape)
            return super().empty(shape, dtype)

    monkeypatch.setattr(shards, "BUFFERS", Pool())
    for _ in range(3):
        asked.clear()
        copied.search_many([ASKED])
        assert asked


def test_the_checksums_of_the_best_hits_are_compared_first(copied: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_SMALL_ROWS", 0)
    monkeypatch.setattr(sections, "_CHECKED_BYTES", 0)  # so that one video uses it up
    best, *others = videos(copied.search_many([ASKED])[0])
    assert best > min(others), "else the order says nothing"
    assert [track._checked for track in copied.snapshot().tracks.values()] == [{best}]


def test_a_file_that_is_cut_behind_all_videos(copied: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_SMALL_ROWS", 0)
    with Catalogue(copied.folder).writing() as db:  # its vectors stay, as those of a file that was indexed again
        last = copied.videos()[-1].id
        db.execute("DELETE FROM sections WHERE video = ?", (last,))
        db.execute("DELETE FROM videos WHERE id = ?", (last,))
    snapshot = copied.snapshot()
    os.truncate(values(copied), values(copied).stat().st_size - 1)
    for (result,) in (copied.search_many([ASKED], snapshot), copied.search_many([ASKED])):
        assert (len(result), "left out" in result.message) == (15, False)


def test_a_file_that_is_restored_while_the_library_changes(copied: Library) -> None:
    file = values(copied)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 64]))
    assert len(copied.snapshot().damaged) == 1
    file.write_bytes(content)
    copied.store.add_tags([1], ["new"])
    assert not copied.snapshot().problems


def test_only_damaged_shards_are_looked_at_again(divided: Library) -> None:
    hurt, *_, other = sorted(divided.folder.glob("shards/*/local.values.bin"))
    content = hurt.read_bytes()
    hurt.write_bytes(content[:-1] + bytes([content[-1] ^ 64]))
    snapshot = divided.snapshot()
    assert len(snapshot.damaged) == 1
    with other.open("ab") as file:
        file.write(b"what an unfinished add has written")
    assert divided.snapshot() is snapshot
    hurt.write_bytes(content)
    assert not divided.snapshot().problems


FEW_FILES = """
import gc, resource, sys
from prvr.library import Library, LibraryError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))
library = Library.open(sys.argv[1])
print(len(library.snapshot().videos), library.damage())
del library
gc.collect()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    Library.open(sys.argv[1]).snapshot()
except LibraryError as problem:
    print(problem)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_too_few_open_files_are_no_damage(divided: Library) -> None:
    command = [sys.executable, "-c", FEW_FILES, str(divided.folder)]
    raised, refused = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert raised == "16 "
    assert "`ulimit -n 65536`" in refused


@pytest.mark.parametrize("text", ["many", "-1", "inf"])
def test_a_wrong_size_of_the_memory_is_refused_at_once(
    text: str, copied: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(vars(MEMORY), "most", raising=False)
    monkeypatch.setenv(CACHE_MEGABYTES, text)
    with pytest.raises(LibraryError, match=f"{CACHE_MEGABYTES} is a number of megabytes, not '{text}'"):
        Library.open(copied.folder)


def test_memory_of_a_peak_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_MOST", 0)
    pool, small, large = BufferPool(), (1 << 20,), (1 << 24,)
    peak = [pool.empty(small, "float32") for _ in range(3)]
    del peak
    again = pool.empty(small, "float32")
    assert len(pool.buffers) == 1, "the others are dropped when one is used again"
    del again
    pool.empty(large, "float32")
    assert [buffer.nbytes for buffer in pool.buffers] == [4 << 24], "and all when none fits"


def test_memory_is_used_again_when_nobody_holds_a_view_of_it() -> None:
    pool, shape = BufferPool(), (1 << 20,)
    first = pool.empty(shape, "float32")
    first[:] = 1
    view = first[5:10].reshape(1, 5)
    del first
    second = pool.empty(shape, "float32")
    second[:] = 2
    assert (view == 1).all()
    place = second.ctypes.data
    del second
    assert pool.empty(shape, "float16").ctypes.data == place
    assert len(pool.buffers) == 2
