"""Pieces that workers leave on object storage, all stages in this process; on Ray: ``test_on_a_cluster.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prvr.cluster import ClusterError
from prvr.cluster.object_pieces import ObjectPieces
from prvr.library import Library
from prvr.objects import Copy, open_object_store, open_published, working_copy
from tests.cluster.alike import same_library
from tests.cluster.test_add import Killed, Stages
from tests.cluster.test_add import add as add_in_stages
from tests.objects.conftest import RATE

Machine = Callable[[str], None]
in_a_folder = pytest.mark.parametrize("address", ["file"], indirect=True)


def add(address: str, some: list[Path], stages: Stages) -> None:
    with working_copy(address) as copy:
        stages.copy = copy
        add_in_stages(copy.open_or_create(rate=RATE), some, stages)


def test_another_machine_continues_with_the_pieces_that_are_there(
    address: str, machine: Machine, some: list[Path], whole: Library
) -> None:
    """Killed when some videos are committed, and published or not, and others wait: nothing is lost or doubled."""
    store = open_object_store(address)
    with pytest.raises(Killed):
        add(address, some, Stages(seed=5, stop_after=18))
    left = {name for name in store.list("pieces") if name.endswith(".safetensors")}
    assert left
    machine("second")
    continued = Stages(seed=4)
    add(address, some, continued)
    assert continued.decoded < len(some)
    same_library(Library.open(Copy.of(address).folder), whole)
    assert store.list("pieces") == {}
    machine("third")
    same_library(open_published(address), whole)


@in_a_folder
def test_pieces_stay_until_their_commit_is_published(address: str, some: list[Path], machine: Machine) -> None:
    with working_copy(address) as copy:
        lib = copy.open_or_create(rate=RATE)
        pieces = ObjectPieces(copy.store, copy)
        copy.store.put(pieces.name("one"), b"committed")
        copy.store.put(pieces.name("two"), b"committed later")
        lib.add(some[:1])
        pieces.drop(["one"])
        assert copy.store.list("pieces").keys() == {pieces.name("one"), pieces.name("two")}
        copy.publish()
        lib.add(some[1:2])
        pieces.drop(["two"])
        assert copy.store.list("pieces").keys() == {pieces.name("two")}


@in_a_folder
def test_damaged_pieces_are_made_again(address: str, some: list[Path], whole: Library, machine: Machine) -> None:
    store = open_object_store(address)
    with pytest.raises(Killed):
        add(address, some, Stages(seed=5, stop_after=18))
    for name in store.list("pieces"):
        data = store.get(name)
        store.put(name, data[:-1] + b"?")
    machine("second")
    with pytest.raises(ClusterError, match="was damaged and is deleted: run the command again"):
        add(address, some, Stages())
    for name in store.list("pieces"):
        store.delete([name])
    add(address, some, Stages())
    same_library(Library.open(Copy.of(address).folder), whole)


@in_a_folder
def test_a_file_that_crashes_its_decoder_is_given_up(address: str) -> None:
    pieces = ObjectPieces(open_object_store(address))
    assert [pieces.begin("key") for _ in range(6)] == [True] * 5 + [False]
    pieces.forget_tries()
    assert pieces.begin("key")
    pieces.end("key")
    assert pieces.store.list("pieces") == {}
