"""A library published to a folder and to a real S3 server is the library that it was made from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prvr.library import Library, LibraryError, SearchRequest
from prvr.objects import (
    Copy,
    fetch_copy,
    newest_manifest,
    open_object_store,
    open_published,
    publish,
    published_problems,
    working_copy,
)
from prvr.objects.store import ObjectMissing, StoreError
from tests.cluster.alike import SENTENCES, arrays, requests, same_answers, same_library
from tests.objects.conftest import RATE

Machine = Callable[[str], None]
in_a_folder = pytest.mark.parametrize("address", ["file"], indirect=True)  # what a server adds nothing to


def test_a_store_holds_what_was_put(address: str) -> None:
    store = open_object_store(address)
    assert store.list("a") == {}
    store.put("a/one", b"first")
    store.put("a/one", b"again")
    store.put("a/deep/two", b"x" * 6_000_000)
    store.put("ab", b"elsewhere")
    assert store.get("a/one") == b"again"
    assert store.list("a") == {"a/one": 5, "a/deep/two": 6_000_000}
    store.delete(["a/one", "a/one", "a/never"])
    with pytest.raises(ObjectMissing, match="a/one"):
        store.get("a/one")


def test_another_machine_finds_the_library(
    address: str, machine: Machine, some: list[Path], whole: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are small here, so that there are many; the copy is equal byte for byte, and answers as the original."""
    monkeypatch.setattr(publish, "LARGEST", 5000)
    monkeypatch.setattr(publish, "SMALL", 2000)
    monkeypatch.setattr(publish, "BLOCK", 8192)
    with working_copy(address) as copy:
        lib = copy.open_or_create(rate=RATE)
        for path in some:
            lib.add([path])
            copy.publish()
        same_library(lib, whole)
    manifest = newest_manifest(open_object_store(address))
    assert manifest is not None
    assert len(manifest.objects) > len(manifest.files) + 10
    machine("second")
    found = open_published(address)
    same_library(found, whole)
    same_answers(found.search_many(requests()), whole.search_many(requests()))
    assert published_problems(address) == []
    with pytest.raises(StoreError, match="a copy of"):
        found.remove(some)


@in_a_folder
def test_only_what_is_new_travels(address: str, machine: Machine, some: list[Path]) -> None:
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(some[:4])
    first = newest_manifest(open_object_store(address))
    with working_copy(address) as copy:
        copy.open_or_create().add(some[:4])
    assert newest_manifest(open_object_store(address)) == first  # nothing new: nothing is published
    machine("second")
    fetch_copy(address)
    copied = {path: path.stat().st_ino for path in Copy.of(address).folder.rglob("*.bin")}
    fetch_copy(address)
    assert copied == {path: path.stat().st_ino for path in Copy.of(address).folder.rglob("*.bin")}
    with working_copy(address) as copy:
        copy.open_or_create().add(some[4:])
        assert first is not None
        assert copy.manifest is not None
    assert copy.manifest.generation == first.generation + 1
    assert copy.manifest.files["library.json"] == first.files["library.json"]


def test_removed_videos_go_everywhere_and_old_states_are_tidied_away(
    address: str, machine: Machine, some: list[Path], whole: Library
) -> None:
    store = open_object_store(address)
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(some[:3])
    machine("second")
    assert len(open_published(address).videos()) == 3
    for path in some[:2]:
        with working_copy(address) as copy:
            assert len(Library.open(copy.folder).remove([path])) == 1
    machine("first")
    reader = open_published(address)
    assert [video.path for video in reader.videos()] == [some[2]]
    assert reader.verify().ok
    names = store.list("manifests")
    assert len(names) == 3
    kept = {name for each in names for parts in json.loads(store.get(each))["files"].values() for name, _ in parts}
    assert store.list("objects").keys() == kept
    assert "lease.json" not in store.list(".") | store.list("")


@in_a_folder
def test_a_reader_that_has_a_state_mapped_keeps_it(address: str, machine: Machine, some: list[Path]) -> None:
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(some[:2])
    machine("second")
    reader = open_published(address)
    before = reader.search(SENTENCES[0], limit=5)
    held = reader.snapshot()
    machine("first")
    with working_copy(address) as copy:
        Library.open(copy.folder).remove(some[:1])
        Library.open(copy.folder).add(some[2:3])
    machine("second")
    fetch_copy(address)
    again = reader.search_many([SearchRequest(SENTENCES[0], limit=5)], held)[0]
    same_answers([again], [before])
    assert {hit.video.path for hit in reader.search(SENTENCES[0], limit=5)} == set(some[1:3])


@in_a_folder
@pytest.mark.usefixtures("short_silence")
def test_work_that_was_not_published_continues(
    address: str, machine: Machine, some: list[Path], whole: Library
) -> None:
    """Killed on one machine: that machine goes on from its copy, another one from what was published."""
    with working_copy(address) as copy:
        lib = copy.open_or_create(rate=RATE)
        lib.add(some[:2])
    _killed(address, lambda lib: lib.add(some[2:4]))
    machine("second")
    with working_copy(address) as copy:
        lib = copy.open_or_create()
        assert len(lib.videos()) == 2
        report = lib.add(some[:3])
        assert (len(report.added), len(report.unchanged)) == (1, 2)
    machine("first")  # its copy rests on an older state: what it had not published is dropped, and added again
    with working_copy(address) as copy:
        lib = copy.open_or_create()
        assert len(lib.videos()) == 3
        lib.add(some)
        same_library(lib, whole)
    _killed(address, lambda lib: lib.remove(some[:1]))
    with working_copy(address) as copy:  # the same machine, and nobody else published: its copy is ahead, and goes on
        assert len(Library.open(copy.folder).videos()) == 4
    assert len(open_published(address).videos()) == 4


def _killed(address: str, change: Callable[[Library], Any]) -> None:
    """Change a library as a process does that is killed before it publishes: the lease and the copy stay."""
    store = open_object_store(address)
    with working_copy(address) as copy:
        change(Library.open(copy.folder))
        left = store.get("lease.json")
        copy.close = lambda: None  # type: ignore[method-assign]
    store.put("lease.json", left)


@in_a_folder
def test_killed_between_the_manifest_and_the_note_of_it(address: str, some: list[Path], machine: Machine) -> None:
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(some[:1])
    state = (Copy.of(address).home / "copy.json").read_text()
    with working_copy(address) as copy:
        Library.open(copy.folder).add(some[1:2])
    (Copy.of(address).home / "copy.json").write_text(state)
    inodes = {path: path.stat().st_ino for path in Copy.of(address).folder.rglob("*.bin")}
    assert len(open_published(address).videos()) == 2
    assert inodes == {path: path.stat().st_ino for path in Copy.of(address).folder.rglob("*.bin")}


@in_a_folder
def test_killed_while_fetching(address: str, some: list[Path], whole: Library, machine: Machine) -> None:
    """A copy that is half one state and half another is told from both."""
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(some)
    machine("second")
    fetch_copy(address)
    copy_here = Copy.of(address)
    copy_here.note_base(None, copy_here.files)
    (copy_here.folder / "catalogue.sqlite").write_bytes(b"half of it")
    (copy_here.folder / "catalogue.sqlite-journal").write_bytes(b"of another")
    for path in list(copy_here.folder.rglob("*.bin"))[:2]:
        path.write_bytes(path.read_bytes()[:10])
    same_library(open_published(address), whole)


@in_a_folder
def test_the_library_is_published_while_it_grows(
    address: str, some: list[Path], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prvr.objects.writer.EVERY", 0.05)
    seen = []
    with working_copy(address) as copy:
        lib = copy.open_or_create(rate=RATE)
        for path in some[:3]:
            lib.add([path])
            end = time.monotonic() + 30
            while copy.published != copy.generation():
                assert time.monotonic() < end, "it is never published"
            machine("second")
            other = open_published(address)
            seen.append(len(other.videos()))
            assert arrays(other.folder).keys() == arrays(lib.folder).keys()
            machine("first")
    assert seen == [1, 2, 3]


@in_a_folder
def test_an_interrupted_block_publishes_what_it_finished(address: str, some: list[Path], machine: Machine) -> None:
    def interrupted() -> None:
        with working_copy(address) as copy:
            copy.open_or_create(rate=RATE).add(some[:1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    machine("second")
    assert len(open_published(address).videos()) == 1


@in_a_folder
def test_nothing_is_published_there(address: str) -> None:
    with pytest.raises(LibraryError, match="no library was published"):
        open_published(address)
    with working_copy(address):
        pass  # nothing was made
    assert newest_manifest(open_object_store(address)) is None
