"""Changed bits, lost and cut files: `verify` names the videos, searches leave them out, `repair` makes them again."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.errors import UserError
from prvr.library import Library, LibraryError
from prvr.library.store import arrays, seals, snapshot
from prvr.library.store.catalogue import Catalogue, write_notes
from tests.library.store.test_faults import RATE, answers


@pytest.fixture
def damaged(trained: Library, tmp_path: Path) -> Library:
    """A copy of a library with a trained model, to do things to."""
    shutil.copytree(trained.folder, tmp_path / "library")
    return Library.open(tmp_path / "library")


@pytest.fixture
def shards(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Six videos, each in a shard of its own."""
    monkeypatch.setattr(arrays, "SHARD_LIMIT", 1)
    library = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    library.add([own])
    assert len([*(library.folder / "shards").iterdir()]) == 6
    return library


@contextmanager
def flipped(file: Path, chance: random.Random) -> Iterator[tuple[int, int]]:
    """A file with one changed bit. Afterwards it is as before."""
    content = file.read_bytes()
    place, bit = chance.randrange(len(content)), chance.randrange(8)
    file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
    try:
        yield place, bit
    finally:
        file.write_bytes(content)


def searched(folder: Path) -> object:
    """What a search and the list of videos say; a sentence is an answer, a traceback is not."""
    try:
        lib = Library.open(folder)
        return answers(lib), lib.videos(), [lib.store.lines(video.id) for video in lib.videos()]
    except UserError as problem:
        return str(problem)


FLIPS = int(os.environ.get("PRVR_FLIPS", "40"))  # changed bits that each test tries


@pytest.mark.parametrize("kind", ["shards/*/*.bin", "library.json", "model-*/**/*"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_changed_bit_is_found(kind: str, seed: int, damaged: Library) -> None:
    chance = random.Random(f"{seed} {os.environ.get('PRVR_SEED', '')}")
    files = sorted(file for file in damaged.folder.glob(kind) if file.is_file())
    assert files
    for _ in range(FLIPS if "shards" in kind else FLIPS // 4):
        file = chance.choice(files)
        with flipped(file, chance) as (place, bit):
            try:
                found = Library.open(damaged.folder).verify()
                assert not found.ok, f"bit {bit} of byte {place} in {file}"
                assert "shards" not in kind or found.damaged, "no video is named"
            except UserError:
                pass
    assert damaged.verify().ok


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_changed_bit_in_the_catalogue_is_found_or_changes_nothing(seed: int, own: Path, library: Library) -> None:
    library.add([own])
    (own / "spoken.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\na purple parrot\n")
    before, chance = searched(library.folder), random.Random(f"{seed} {os.environ.get('PRVR_SEED', '')}")
    for _ in range(FLIPS):
        with flipped(library.folder / "catalogue.sqlite", chance) as (place, bit):
            try:
                found = not Library.open(library.folder).verify().ok
            except UserError:
                found = True
            now = searched(library.folder)
            assert found or now == before, f"bit {bit} of byte {place}"
    assert library.verify().ok


@pytest.mark.parametrize("few", [0, 64], ids=["large", "small"])
def test_a_changed_name_in_the_catalogue_is_not_shown(
    few: int, own: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a small library all rows are compared with their checksums, in a large one those of the hits."""
    monkeypatch.setattr(snapshot, "_FEW_VIDEOS", few)
    library.add([own])
    name = library.search("a red square")[0].video.path.name.encode()
    file = library.folder / "catalogue.sqlite"
    file.write_bytes(file.read_bytes().replace(name, b"#" + name[1:]))
    damaged = Library.open(library.folder)
    for _ in range(2):
        found = damaged.search("a red square", limit=50)
        assert len(found) == len([*own.glob("*.mp4")]) - 1
        assert "1 damaged video was left out" in found.message
        assert all(hit.video.path.exists() for hit in found)


def test_rows_of_hits_are_compared_once_in_each_state_of_a_library(
    own: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = min(own.glob("*.mp4")).with_suffix(".srt")
    spoken.write_text("1\n00:00:01,000 --> 00:00:02,000\na purple parrot\n")
    library.add([own])
    compared: list[int] = []
    checksum = seals.content_checksum

    def counted(db: sqlite3.Connection, kind: str, number: int) -> int | None:
        compared.extend([number] if kind == "video" else [])
        return checksum(db, kind, number)

    monkeypatch.setattr(snapshot, "_FEW_LINES", 0)  # as if reading them all would take long
    monkeypatch.setattr(seals, "content_checksum", counted)
    for tag in "ab":
        library.store.add_tags([1], [tag])
        compared.clear()
        for limit in (2, 2, 4):
            hits = [hit.video.id for hit in library.search("a red square", limit=limit)]
            assert sorted(compared) == sorted(hits)


@pytest.mark.parametrize(
    "change",
    [
        "state SET generation = 'x'", "shards SET about = '{}'", "shards SET about = 'null'", "shards SET track = 'x'",
        "sections SET video = 'x' WHERE row = 0",
    ],
)  # fmt: skip
def test_values_of_wrong_types_in_the_catalogue_end_in_sentences(change: str, own: Path, library: Library) -> None:
    library.add([own])
    with sqlite3.connect(library.folder / "catalogue.sqlite") as db:
        db.execute(f"UPDATE {change}")
    for ask in (Library.verify, Library.summary, Library.repair, lambda opened: opened.search("a red square")):
        with suppress(UserError):
            ask(Library.open(library.folder))


def test_repair_indexes_exactly_the_damaged_videos(own: Path, library: Library) -> None:
    library.add([own], tags=["drawn"])
    before = answers(library)
    (values,) = library.folder.glob("shards/*/local.values.bin")
    content = bytearray(values.read_bytes())
    content[len(content) // 2] ^= 64
    values.write_bytes(content)
    found = Library.open(library.folder).verify()
    (number,) = found.damaged
    hurt = next(video for video in library.videos() if video.id == number)
    assert [problem.split(":")[0] for problem in found.problems] == [str(hurt.path)]
    report = Library.open(library.folder).repair()
    assert report.added.added == [hurt.path]
    assert report.left.ok
    assert answers(Library.open(library.folder)) == before
    assert all(video.tags == ("drawn",) for video in library.videos())


def test_a_damaged_video_whose_file_is_gone_is_named(own: Path, library: Library) -> None:
    library.add([own])
    (values,) = library.folder.glob("shards/*/local.values.bin")
    values.write_bytes(values.read_bytes()[:-1])
    last = max(library.videos(), key=lambda video: video.id)
    last.path.unlink()
    assert main(["library", "repair", "--library", str(library.folder)]) == 1
    report = Library.open(library.folder).repair()
    assert report.gone == [last.path]
    library.remove([last.path])
    assert library.verify().ok
    assert len(library.search("a red square", limit=50)) == 5


def test_an_impossible_score_is_not_shown(own: Path, library: Library) -> None:
    library.add([own])
    (values,) = library.folder.glob("shards/*/local.values.bin")
    content = bytearray(values.read_bytes())
    for place in range(1, 200, 2):  # the sign and the exponent of half floats
        content[place] = 0x7B
    values.write_bytes(content)
    result = Library.open(library.folder).search("a red square", limit=50)
    assert all(abs(hit.score) < 2 for hit in result)
    assert len(result) == 5
    assert "1 damaged video was left out: `prvr library verify` names them" in result.message


@pytest.mark.parametrize("damage", ["lost", "cut", "described"])
def test_the_rest_of_a_damaged_library_is_searched(damage: str, shards: Library) -> None:
    """Also by a process that has mapped the arrays already: reading behind the end of one would kill it."""
    before = answers(shards)
    victim = shards.folder / "shards" / "3"
    hurt = shards.videos()[2].path.name
    if damage == "lost":
        shutil.rmtree(victim)
    elif damage == "cut":
        for file in victim.iterdir():
            file.write_bytes(b"")
    else:
        with sqlite3.connect(shards.folder / "catalogue.sqlite") as db:
            db.execute("DROP TRIGGER shards_update_unseals")
            db.execute("UPDATE shards SET about = replace(about, 'float', 'flaat') WHERE id = 3")
        db.close()
    for library in (Library.open(shards.folder), shards) if damage != "described" else (Library.open(shards.folder),):
        assert [row[0] for row in answers(library)].count(hurt) == 0
        assert len(library.search("a red square", limit=50)) == 5
        assert "1 damaged video was left out" in library.search("a red square").message
        assert "left out" in library.damage()
    assert shards.verify().damaged == {3}
    report = Library.open(shards.folder).repair()
    assert [path.name for path in report.added.added] == [hurt]
    assert sorted(answers(Library.open(shards.folder))) == sorted(before)
    assert not victim.exists()
    assert shards.damage() == ""


def test_settings_that_are_damaged_are_read_from_the_catalogue(own: Path, library: Library) -> None:
    library.add([own])
    before = answers(library)
    for text in ("", "{", json.dumps({"format": 99})):
        (library.folder / "library.json").write_text(text)
        if text == json.dumps({"format": 99}):  # nobody can tell it from a newer library
            with pytest.raises(LibraryError, match="newer prvr"):
                Library.open(library.folder)
            continue
        opened = Library.open(library.folder)
        assert answers(opened) == before
        assert any("library.json" in problem for problem in opened.verify().problems)
        assert opened.repair().left.ok
        assert json.loads((library.folder / "library.json").read_text())["settings"]["encoder"] == "plain"


def make_old(folder: Path) -> None:
    """Take away what older versions did not write."""
    with sqlite3.connect(folder / "catalogue.sqlite") as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE '%_unseals'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        for statement in ("DROP TABLE seals", "DROP TABLE unsealed", "ALTER TABLE sections DROP COLUMN checksum"):
            db.execute(statement)
        db.execute("DROP TABLE notes")
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    record = json.loads((folder / "library.json").read_text())
    del record["checksum"]
    (folder / "library.json").write_text(json.dumps(record))


def test_a_library_without_checksums_can_be_read_and_gets_them(own: Path, library: Library) -> None:
    paths = sorted(own.iterdir())
    library.add(paths[:4])
    before = answers(library)
    make_old(library.folder)
    old = Library.open(library.folder)
    assert answers(old) == before
    assert (old.verify().ok, old.verify().unsealed) == (True, 4)
    old.add(paths[4:])
    assert (old.verify().ok, old.verify().unsealed) == (True, 4)
    assert main(["library", "repair", "--library", str(library.folder)]) == 0
    assert (old.verify().ok, old.verify().unsealed) == (True, 0)
    with flipped(next(library.folder.glob("shards/*/local.values.bin")), random.Random(1)):
        assert len(Library.open(library.folder).verify().damaged) == 1


def test_an_older_version_that_writes_makes_no_false_alarm(own: Path, library: Library) -> None:
    """It knows nothing of checksums: what it changes counts as without one, and gets one with the next change."""
    library.add([own])
    with sqlite3.connect(library.folder / "catalogue.sqlite") as db:
        db.execute("UPDATE videos SET tags = '[\"old\"]' WHERE id = 2")
    db.close()
    assert (library.verify().ok, library.verify().unsealed) == (True, 1)
    with Catalogue(library.folder).writing():
        pass
    assert (library.verify().ok, library.verify().unsealed) == (True, 0)


def test_a_library_that_an_older_version_has_reindexed_is_not_damaged(own: Path, library: Library) -> None:
    library.add(sorted(own.iterdir())[:1])
    library.reindex(rate=2 * RATE)
    record = json.loads((library.folder / "library.json").read_text())
    del record["checksum"]
    (library.folder / "library.json").write_text(json.dumps(record))
    assert not library.verify().ok
    with Catalogue(library.folder).writing() as db:
        write_notes(db, {"record": json.dumps(record)})  # neither of them had a checksum then
    assert library.verify().ok
    assert library.repair().done == []


@pytest.mark.parametrize("remedy", ["repair", "add"])
def test_a_row_that_cannot_be_read_is_deleted_or_replaced(remedy: str, own: Path, library: Library) -> None:
    hurt, other = sorted(own.iterdir())[:2]
    library.add([hurt], tags=["zebra"])
    library.add([other])
    catalogue = library.folder / "catalogue.sqlite"
    catalogue.write_bytes(catalogue.read_bytes().replace(b'["zebra"]', b'{"zebra"]'))
    library = Library.open(library.folder)
    assert 1 in library.verify().damaged
    assert library.store.summary().tags == {}
    if remedy == "repair":
        report = library.repair()
        assert report.done == [f"{hurt}: its row in the catalogue was damaged and is deleted: add the file again"]
        assert report.left.ok
        assert [video.path for video in library.videos()] == [other]
    assert library.add([hurt]).added == [hurt]
    assert library.repair().left.ok
    assert {video.path for video in library.videos()} == {hurt, other}


def test_a_damaged_row_is_not_sealed_by_a_change(damaged: Library) -> None:
    video = damaged.videos()[0]
    with sqlite3.connect(damaged.folder / "catalogue.sqlite") as db:
        db.execute("UPDATE videos SET duration = duration + 1 WHERE id = ?", (video.id,))
        db.execute("DELETE FROM unsealed")  # as bits that change by themselves: nobody notes it
    for change in (
        lambda: damaged.change_tags(video.id, add=["new"]),
        lambda: damaged.store.add_tags([video.id], ["new"]),
        lambda: damaged.store.rename(video, video.path, video.mtime + 1),
    ):
        with pytest.raises(LibraryError, match="repair"):
            change()
    assert not damaged.verify().ok
