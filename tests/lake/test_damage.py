"""Files of a lake that are lost or damaged: `verify` names the videos, a search says one sentence."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prvr.errors import UserError
from prvr.lake import create_library, open_library, reading, sections
from prvr.lake.copying import create_alike
from prvr.lake.sections import LakeSections
from prvr.lake.tables import DamagedTable, StoreAway, Table
from prvr.library import Library, LibrarySettings
from prvr.worlds import RenderedWorld
from tests.lake.conftest import Said, drawn_videos, opened, require_unique

Damage = Callable[[Path], None]


def flip(file: Path) -> None:
    """One bit, in the middle of the largest thing in the file: the vectors."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.fixture
def parts(drawn: Library, tmp_path: Path) -> Library:
    """Ten videos in five files."""
    create_alike(drawn, str(tmp_path / "parts.lance"))
    library = opened(tmp_path / "parts.lance", drawn)
    for first in range(2, 12, 2):
        library.store.commit(drawn_videos(drawn, first, first + 2))
    return library


def file_of(library: Library, table: str = "frames", number: int = 2) -> Path:
    """The data file of the third commit."""
    files = (Path(library.address) / f"{table}.lance" / "data").glob("*.lance")
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)[number]


def change_row(library: Library, number: int, **values: str) -> None:
    """Change the row of a video but not its checksum, as a disk does that fails."""
    import lance

    lance.dataset(f"{library.address}/videos.lance").update(values, where=f"id = {number}")


@pytest.mark.parametrize("damage", [cut, Path.unlink], ids=["cut", "lost"])
def test_a_file_of_sections_that_cannot_be_read(damage: Damage, drawn: Library, parts: Library) -> None:
    damage(file_of(parts))
    hurt = [str(video.path) for video in parts.videos()[4:6]]
    library = opened(parts.address, drawn)
    assert [problem.split(":")[0] for problem in library.verify().problems] == hurt
    result = library.search("sentence 0 1", limit=50)
    assert result.total == 8
    assert library.damage() in result.message
    assert "2 damaged videos were left out" in library.damage()
    library.remove(hurt[:1])
    assert [problem.split(":")[0] for problem in library.verify().problems] == hurt[1:]
    library.remove(hurt[1:])  # nobody needs the file now, and it goes
    assert library.search("sentence 0 1", limit=50).total == 8
    library.store.commit(drawn_videos(drawn, 6, 8))
    require_unique(library, 10)
    assert library.search("sentence 0 1", limit=50).total == 10


def test_a_bit_that_changed_is_found(drawn: Library, parts: Library) -> None:
    flip(file_of(parts))
    assert parts.verify().problems
    hurt = {str(video.path) for video in parts.videos()[4:6]}
    assert {problem.split(":")[0] for problem in parts.verify().problems} <= hurt


def test_repair_indexes_exactly_the_damaged_videos(films: RenderedWorld, tmp_path: Path) -> None:
    library = create_library(str(tmp_path / "films.lance"), LibrarySettings("plain", rate=2.0))
    paths = sorted(films.videos.values())[:4]
    for path in paths:
        library.add([path])
    before = [(hit.video.path, hit.score) for hit in library.search("a red square")]
    flip(file_of(library))
    change_row(library, 1, duration="1e6")
    report = open_library(library.address).repair()
    assert report.added.added == [paths[0], paths[2]]
    assert report.left.ok
    require_unique(library, 4)
    repaired = open_library(library.address)
    assert [(hit.video.path, hit.score) for hit in repaired.search("a red square")] == before


@pytest.mark.parametrize("table", ["frames", "videos", "settings"])
def test_a_lost_table_is_named(table: str, parts: Library, own: Path, prvr: Callable[..., Said]) -> None:
    shutil.rmtree(f"{parts.address}/{table}.lance")
    if table == "settings":
        prvr("search", "red", "--library", parts.address).refuses("there is no library")
        prvr("library", "add", own, "--library", parts.address, "--encoder", "plain").refuses(
            "has lost its table 'settings'"
        )
        return
    library = open_library(parts.address)
    with pytest.raises(DamagedTable, match=f"has lost its table '{table}': restore it from a copy"):
        library.snapshot()
    prvr("library", "verify", "--library", parts.address)
    if table == "frames":
        assert len(library.verify().problems) == 10


def test_any_damage_ends_in_a_sentence(drawn: Library, parts: Library, tmp_path: Path) -> None:
    chance = random.Random(5)
    names = sorted(file.relative_to(parts.address) for file in Path(parts.address).rglob("*") if file.is_file())
    for number in range(16):
        place = tmp_path / f"{number}.lance"
        shutil.copytree(parts.address, place)
        file = place / chance.choice(names)
        content = bytearray(file.read_bytes())
        for _ in range(3):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content if number % 2 else content[: chance.randrange(len(content))])
        for ask in (Library.verify, Library.videos, lambda library: library.search("sentence 0 1"), Library.status):
            with suppress(UserError):
                ask(opened(place, drawn))


def test_a_kill_while_a_lake_is_created_leaves_nothing_in_the_way(drawn: Library, tmp_path: Path) -> None:
    """The table of videos is there, that of the settings is not, and half a file lies about."""
    place = tmp_path / "films.lance"
    create_alike(drawn, str(place))
    shutil.rmtree(place / "settings.lance")
    (place / "videos.lance" / "data" / "half.lance").write_bytes(b"half a file")
    create_alike(drawn, str(place))
    library = opened(place, drawn)
    library.store.commit(drawn_videos(drawn, 2, 4))
    require_unique(library, 2)


def test_a_changed_bit_in_vectors_is_found_by_a_search(drawn: Library, lake: Library) -> None:
    """A search compares the checksum of every section that it reads, and leaves out what is not as it was written."""
    (data,) = (Path(lake.address) / "frames.lance" / "data").iterdir()
    content, chance, left_out = data.read_bytes(), random.Random(3), 0
    for _ in range(12):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        data.write_bytes(changed)
        library = opened(lake.address, drawn)
        with suppress(UserError):
            found = library.search("sentence 0 1", limit=200)
            damaged = library.verify().damaged
            assert not damaged & {hit.video.id for hit in found}
            assert ("1 damaged video was left out" in found.message) == bool(damaged)
            assert bool(library.damage()) == bool(damaged)
            left_out += len(damaged)
    assert left_out > 5


def test_one_search_finds_all_damage(drawn: Library, parts: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks are damaged, the search is repeated once."""
    monkeypatch.setattr(sections, "_BLOCK_TOKENS", 1)
    for file in [file_of(parts, number=number) for number in (0, 2, 3)]:
        flip(file)
    library = opened(parts.address, drawn)
    passes, search = [], Library._search

    def counted(*arguments: Any) -> Any:
        passes.append(1)
        return search(*arguments)

    monkeypatch.setattr(Library, "_search", counted)
    found = library.search("sentence 0 1", limit=50)
    assert "3 damaged videos were left out" in found.message
    assert (found.total, len(passes)) == (7, 2)
    assert {*library.snapshot().damaged} == library.verify().damaged


@pytest.mark.parametrize("sealed", [True, False])
def test_a_damaged_description_of_sections_is_a_sentence(drawn: Library, lake: Library, sealed: bool) -> None:
    """It is in the manifest. Tables of older versions have no checksum of it."""
    folder = Path(lake.address) / "frames.lance" / "_versions"
    kept = {file: file.read_bytes() for file in folder.glob("*.manifest")}
    assert any(b"fusion_weight" in content for content in kept.values())
    for old, new in (
        (b"routes.ceiling", b"routes.ceiljng"),
        (b"fusion_weight", b"fusion_weighu"),
        (b"float32", b"floqt32"),
    ):
        for file, content in kept.items():
            without = content.replace(b"prvr.checksum", b"prvr.nothings")
            file.write_bytes((content if sealed else without).replace(old, new))
        with pytest.raises(UserError):
            opened(lake.address, drawn).search("sentence 0 1")


def test_a_changed_bit_in_the_rows_of_videos_is_found(drawn: Library, lake: Library) -> None:
    """Names, numbers, states and lines have checksums too, which Lance itself does not have."""
    data = max((Path(lake.address) / "videos.lance" / "data").iterdir(), key=lambda file: file.stat().st_size)
    content, chance, noticed = data.read_bytes(), random.Random(8), 0

    def answers(library: Library) -> list[tuple[str, float, float]]:
        return [(str(hit.video.path), hit.start, hit.score) for hit in library.search("sentence 0 1", limit=200)]

    before = answers(lake)
    for _ in range(10):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        data.write_bytes(changed)
        with suppress(UserError):
            library = opened(lake.address, drawn)
            if answers(library) != before:
                assert library.damage()
                assert library.verify().damaged == library.snapshot().damaged
                noticed += 1
    assert noticed > 1


def test_a_lake_of_an_older_version_has_no_checksums_of_rows(drawn: Library, parts: Library) -> None:
    import lance

    lance.dataset(f"{parts.address}/videos.lance").drop_columns(["seal", "lines_seal"])
    older = opened(parts.address, drawn)
    older.store.commit(drawn_videos(drawn, 12, 14))
    older.store.add_tags([3], ["new"])
    assert (older.search("sentence 0 1", limit=50).total, older.damage()) == (12, "")
    require_unique(older, 12)


@pytest.mark.parametrize("column", [b"name", b"content"])
def test_a_damaged_description_of_settings_is_a_sentence(lake: Library, column: bytes) -> None:
    for file in (Path(lake.address) / "settings.lance" / "_versions").glob("*.manifest"):
        file.write_bytes(file.read_bytes().replace(column, column[:-1] + b"_"))
    with pytest.raises(UserError, match="is damaged"):
        open_library(lake.address)


def test_the_first_and_the_last_file_say_nothing_of_those_between(drawn: Library, parts: Library) -> None:
    """They are lost after their sections were counted, as by a disk that begins to fail."""
    library = opened(parts.address, drawn)
    library.snapshot()
    for file in [file_of(parts, number=number) for number in (0, 4)]:
        file.unlink()
    assert library.search("sentence 0 1", limit=50).total == 6
    assert "4 damaged videos were left out" in library.damage()


def test_what_can_be_read_of_a_file_is_not_blamed(lake: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    track = lake.snapshot().tracks["frames"]
    assert isinstance(track, LakeSections)
    everything, read, take = np.arange(len(track)), [], track._take
    assert np.unique(track.row_ids >> 32).size == 1

    def damaged(numbers: set[int]) -> list[int]:
        def reading(some: Any, columns: Any) -> Any:
            read.append(some)
            if numbers & {*some.tolist()}:
                raise DamagedTable("damaged")
            return take(some, columns)

        monkeypatch.setattr(track, "_take", reading)
        return sorted(track._failing(everything, ["background"]).tolist())

    for some in ({0, len(track) - 1}, {5}, {3, 4, 5, 90}):
        assert damaged(some) == sorted(some)
    read.clear()
    assert damaged({*everything.tolist()}) == everything.tolist()
    assert len(read) < 12


def test_too_many_open_files_are_no_damage(drawn: Library, parts: Library) -> None:
    """One search fails. When files can be opened again, the next finds everything."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    library = opened(parts.address, drawn)
    library.snapshot()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(StoreAway, match="has too much to do: try again"):
            library.search("sentence 0 1", limit=50)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (library.search("sentence 0 1", limit=50).total, library.damage()) == (10, "")


def test_a_version_that_changes_while_it_is_read_is_not_damaged(
    drawn: Library, parts: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes between the reading of rows and of sections. What is lost twice is damaged."""
    writer, videos, look = opened(parts.address, drawn).store, drawn_videos(drawn, 2, 4), Table.open
    tags, writing = itertools.count(), threading.Lock()

    def index_again() -> None:
        writer.expect_again([1, 2])
        writer.commit(videos)

    def opening(write: Callable[[], None]) -> Callable[[Table], Any]:
        def meanwhile(table: Table) -> Any:
            if table.name == "frames" and writing.acquire(blocking=False):
                write()
                writing.release()
            return look(table)

        return meanwhile

    monkeypatch.setattr(Table, "open", opening(index_again))
    with pytest.raises(StoreAway, match="other processes change the library while it is read"):
        opened(parts.address, drawn).snapshot()
    file_of(parts).unlink()
    monkeypatch.setattr(Table, "open", opening(lambda: writer.add_tags([1], [str(next(tags))])))
    assert {*opened(parts.address, drawn).snapshot().damaged} == {5, 6}
    assert next(tags) == 2


def test_rows_are_compared_where_many_failed(drawn: Library, parts: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten files are too many to compare all of them, so the hits are; also if only nine can be searched."""
    change_row(parts, 1, state="'failed'")
    change_row(parts, 3, duration="1e6")
    monkeypatch.setattr(reading, "_FEW", 9)
    library = opened(parts.address, drawn)
    assert "1 damaged video was left out" in library.search("sentence 0 1", limit=50).message
    assert library.verify().damaged == {1, 3}


def test_a_damaged_row_is_not_written_again_but_replaced(drawn: Library, parts: Library) -> None:
    change_row(parts, 3, duration="1e6")
    change_row(parts, 4, lines_seal="7")
    library = opened(parts.address, drawn)
    with pytest.raises(DamagedTable, match="run `prvr library repair`"):
        library.store.add_tags([3], ["new"])
    with pytest.raises(DamagedTable, match="run `prvr library repair`"):
        library.change_tags(4, add=["new"])
    library.store.add_tags([5], ["new"])
    assert library.verify().damaged == {3, 4}
    library.store.commit(drawn_videos(drawn, 4, 6))
    require_unique(library, 10)
