"""Two processes change one published library, or one is suspended: one is refused, and the library stays whole."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prvr.library import Library, LibraryError
from prvr.objects import lease, newest_manifest, open_published, working_copy
from prvr.objects.copies import Copy
from prvr.objects.manifest import Manifest
from prvr.objects.store import FolderStore, StoreError
from tests.objects.conftest import add

Machine = Callable[[str], None]


def test_a_second_process_is_refused(made: FolderStore, machine: Machine) -> None:
    with working_copy(made.address):
        with pytest.raises(StoreError, match=rf"process {os.getpid()} on .* changes"), working_copy(made.address):
            pass  # on the same machine
        machine("second")
        with pytest.raises(StoreError, match=r"wait until it is done"), working_copy(made.address):
            pass
        machine("first")


@pytest.mark.usefixtures("short_silence")
def test_a_dead_holder_is_waited_for_and_then_ignored(made: FolderStore) -> None:
    left = {"owner": "x", "copy": "elsewhere", "holder": "process 1 on a dead machine", "beat": 3}
    made.put(lease.LEASE, json.dumps(left).encode())
    reported: list[str] = []
    with working_copy(made.address, reported.append):
        assert "process 1 on a dead machine" in reported[0]
    made.put(lease.LEASE, b"no lease")
    with working_copy(made.address):
        pass


@pytest.mark.usefixtures("short_silence")
def test_a_suspended_process_publishes_nothing(made: FolderStore, some: list[Path], machine: Machine) -> None:
    """Another process took its lease and changed the library meanwhile."""

    def suspend_and_resume() -> None:
        with working_copy(made.address) as sleeper:
            sleeper.lease.stop_beating()
            Library.open(sleeper.folder).add(some[2:3])
            machine("second")
            add(made.address, some[3:4])
            machine("first")

    with pytest.raises(StoreError, match=r"lost the right to change"):
        suspend_and_resume()
    assert {video.path for video in open_published(made.address).videos()} == {*some[:2], some[3]}
    add(made.address, some[2:3])  # the same command again
    assert len(open_published(made.address).videos()) == 4


def test_two_states_with_one_number(made: FolderStore, some: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process published between our check of the lease and our manifest: ours is withdrawn."""
    before = newest_manifest(made)
    assert before is not None
    rival = Manifest(before.generation + 1, before.name, "rival", before.catalogue, before.files)

    class Late(FolderStore):
        def put(self, name: str, data: bytes) -> None:
            if name.startswith("manifests"):
                super().put(rival.name, rival.text.encode())
            super().put(name, data)

    monkeypatch.setattr("prvr.objects.writer.open_object_store", lambda address: Late(address, made.folder))
    with pytest.raises(StoreError, match="another process published"):
        add(made.address, some[2:3])
    assert newest_manifest(made) == rival


def test_an_answer_that_is_lost(made: FolderStore, some: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest arrived, but its sender got an error: it continues from that manifest."""

    class Deaf(FolderStore):
        lost = 0

        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            if name.startswith("manifests") and not Deaf.lost:
                Deaf.lost += 1
                raise StoreError("no answer")

    monkeypatch.setattr("prvr.objects.writer.open_object_store", lambda address: Deaf(address, made.folder))
    before = newest_manifest(made)
    with working_copy(made.address) as copy:
        Library.open(copy.folder).add(some[2:3])
        with pytest.raises(StoreError, match="no answer"):
            copy.publish()
        Library.open(copy.folder).add(some[3:4])
    after = newest_manifest(made)
    assert before is not None
    assert after is not None
    assert after.generation == before.generation + 2
    assert len(open_published(made.address).videos()) == 4


def test_a_copy_that_was_copied_to_another_machine(
    made: FolderStore, some: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(made.address, some[:2])
    here = Copy.of(made.address)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    there = Copy.of(made.address)
    assert there.base == here.base
    assert there.id != here.id  # so it takes the other's lease for another process's


def test_work_that_can_no_longer_be_published_stops(
    made: FolderStore, some: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prvr.objects.writer.EVERY", 0.02)

    def lose_it() -> None:
        with working_copy(made.address) as copy:
            Library.open(copy.folder).add(some[2:3])
            copy.lease.stop_beating()  # so that the lease stays as it is written next
            made.put(lease.LEASE, json.dumps({"owner": "y", "holder": "somebody"}).encode())
            Library.open(copy.folder).remove(some[2:3])
            end = time.monotonic() + 30
            while time.monotonic() < end:
                copy.check()
            raise AssertionError("the work never stopped")

    with pytest.raises(LibraryError, match="lost the right to change"):
        lose_it()
