"""Several writers at once: every number and path stays unique, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from prvr.lake import cleaning, open_library
from prvr.lake.copying import create_alike
from prvr.lake.tables import Table
from prvr.lake.writer import SectionWriter
from prvr.library import Library
from tests.lake.conftest import drawn_videos, finish, go, opened, require_unique, start
from tests.library.search.drawn_library import requests, summary


def together(*work: Callable[[], object]) -> None:
    """Do all of this at the same time; raises what one of them raised."""
    problems: list[BaseException] = []

    def guarded(each: Callable[[], object]) -> None:
        try:
            each()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def empty(request: pytest.FixtureRequest, drawn: Library, tmp_path: Path) -> Library:
    """A lake without videos."""
    on_disk = request.param == "disk"
    address = str(tmp_path / "films.lance") if on_disk else f"{request.getfixturevalue('bucket')}/films"
    create_alike(drawn, address)
    return opened(address, drawn)


def test_eight_threads_commit_at_once(drawn: Library, empty: Library) -> None:
    videos = drawn_videos(drawn, 2, 18)

    def commit(number: int) -> None:
        mine = opened(empty.address, drawn)
        for video in videos[number::8]:
            mine.store.commit([video])

    together(*(partial(commit, number) for number in range(8)))
    require_unique(empty, 16)


def test_the_same_videos_from_four_writers_are_there_once(drawn: Library, empty: Library) -> None:
    together(*(lambda: opened(empty.address, drawn).store.commit(drawn_videos(drawn, 2, 8)) for _ in range(4)))
    require_unique(empty, 6)
    sections = sum(empty.snapshot().tracks[name].table.count_rows() for name in ("frames", "text"))
    assert sections == sum(len(track) for track in empty.snapshot().tracks.values())  # none is left over


def test_a_commit_that_is_repeated_counts_once(drawn: Library, empty: Library) -> None:
    """A writer that does not know whether its commit succeeded may commit the same rows again."""
    writer = SectionWriter(empty.address)
    for video in drawn_videos(drawn, 2, 4):
        writer.add(video)
    written = writer.take()
    assert len(empty.store.commit_written(written)) == 2
    written.files.clear()
    assert empty.store.commit_written(written) == []
    require_unique(empty, 2)


def test_removing_tagging_and_replacing_while_others_add(drawn: Library, empty: Library) -> None:
    empty.store.commit(drawn_videos(drawn, 2, 8))
    known = empty.videos()
    changed = drawn_videos(drawn, 8, 9)
    changed[0].video = replace(changed[0].video, path=known[2].path, digest="changed")

    def add() -> None:
        mine = opened(empty.address, drawn)
        for video in drawn_videos(drawn, 20, 26):
            mine.store.commit([video])

    together(
        add,
        lambda: opened(empty.address, drawn).remove([known[0].path, known[1].path]),
        lambda: opened(empty.address, drawn).store.commit(changed),
        lambda: opened(empty.address, drawn).store.add_tags([video.id for video in known[3:]], ["new"]),
        lambda: opened(empty.address, drawn).store.clean(),
    )
    require_unique(empty, 6 - 2 + 6)
    found = {video.path: video for video in empty.videos()}
    assert found[known[2].path].digest == "changed"
    assert all("new" in found[video.path].tags for video in known[3:])


def test_a_name_that_another_writer_took_is_not_taken_twice(drawn: Library, empty: Library) -> None:
    empty.store.commit(drawn_videos(drawn, 2, 4))
    first, second = empty.videos()
    empty.store.rename(first, second.path, 7)  # a file that moved, seen by a command that did not know the other
    require_unique(empty, 2)
    assert [video.path for video in empty.videos()] == [first.path, second.path]


def test_many_small_commits_are_merged_and_old_versions_go(
    drawn: Library, empty: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "_MANY_FILES", 3)
    monkeypatch.setattr(cleaning, "KEPT", timedelta(0))
    for video in drawn_videos(drawn, 2, 10):
        empty.store.commit([video])
    some = requests()[:5]
    before = [summary(empty.search_many([each])[0]) for each in some]
    empty.store.clean()
    fresh = opened(empty.address, drawn)
    tables = fresh.snapshot().opened
    assert [len(table.get_fragments()) for table in tables] == [1, 1, 1]
    assert [len(table.versions()) for table in tables] == [1, 1, 1]
    assert [summary(fresh.search_many([each])[0]) for each in some] == before
    require_unique(fresh, 8)


def test_a_reader_keeps_its_version_while_others_change_it(drawn: Library, empty: Library) -> None:
    empty.store.commit(drawn_videos(drawn, 2, 8))
    snapshot, reader = empty.snapshot(), empty
    writer = opened(empty.address, drawn)
    writer.remove([video.path for video in writer.videos()[:5]])
    (result,) = reader.search_many(requests(count=1), snapshot)
    assert len(snapshot.videos) == 6
    assert result.total >= 0
    assert len(reader.snapshot().videos) == 1


def test_of_several_that_create_a_table_one_wins(address: str) -> None:
    """The others must not overwrite it: there may be rows in it already."""
    for number in range(3):
        table, won = Table(address, f"table{number}"), list[int]()
        ready = threading.Barrier(6)

        def create(mine: int, table: Table = table, won: list[int] = won, ready: threading.Barrier = ready) -> None:
            ready.wait()
            if table.create(pa.table({"number": [mine]})):
                won.append(mine)

        together(*(partial(create, mine) for mine in range(6)))
        found = table.open()
        assert found is not None
        assert (found.version, found.to_table()["number"].to_pylist()) == (1, won)


@pytest.mark.slow
def test_two_commands_add_different_folders_and_the_same(bucket: str, own: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(own.iterdir())[:2]:
        (other / path.name).write_bytes(path.read_bytes())
    words = (own, "--library", f"{bucket}/films", "--encoder", "plain", "--rate", 2)
    processes = [start("library", "add", *some, *words, held=True) for some in ((), (other,))]
    for process in processes:  # both find no library and create it
        go(process)
    for process in processes:
        said = finish(process)
        assert said.status == 0, said
        assert said.err.strip().startswith("This library knows"), said
    require_unique(open_library(f"{bucket}/films"), 5)
