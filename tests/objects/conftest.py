"""Addresses to publish at, and a library that was never published."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.objects import WorkingCopy, lease, working_copy
from prvr.objects.store import FolderStore
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.objects.s3 import KEYS, S3

RATE = 2.0


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films; do not change them."""
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="session")
def some(films: RenderedWorld) -> list[Path]:
    """Five of them."""
    return sorted(films.videos.values())[:5]


@pytest.fixture(scope="session")
def whole(some: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of the five in a folder; do not change it."""
    lib = Library.create(tmp_path_factory.mktemp("library") / "whole", rate=RATE)
    lib.add(some)
    return lib


@pytest.fixture(scope="session")
def server() -> Iterator[S3]:
    pytest.importorskip("pyarrow", reason='object storage needs pyarrow: pip install "prvr[objects]"')
    pytest.importorskip("moto", reason="the S3 server of the tests is moto's: pip install 'moto[server]'")
    made = S3()
    yield made
    made.kill()


@pytest.fixture(params=["file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address at which nothing is published."""
    if request.param == "file":
        return (tmp_path / "store" / "films.prvr").as_uri()
    return str(request.getfixturevalue("server").address(f"{tmp_path.name}/films.prvr"))


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A machine with an empty cache; call it to switch to another machine.

    A holder shows often that it runs, and has the usual 30 s for that: a slow machine does not look dead.
    """
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lease, "SETTLE", 0.05)
    monkeypatch.setattr(lease, "BEAT", 0.2)

    def at(name: str) -> None:
        monkeypatch.setenv("PRVR_CACHE", str(tmp_path / "machines" / name))

    at("first")
    return at


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests with dead holders only: they are waited for briefly."""
    monkeypatch.setattr(lease, "SILENCE", 0.3)


def add(address: str, paths: list[Path]) -> None:
    with working_copy(address) as copy:
        copy.open_or_create(rate=RATE).add(paths)


@pytest.fixture(scope="module")
def published(some: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in a folder, with a library of two videos; do not change it."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRVR_CACHE", str(folder / "cache"))
        add((folder / "store").as_uri(), some[:2])
    return folder / "store"


@pytest.fixture
def made(published: Path, tmp_path: Path) -> FolderStore:
    """A copy of it. Nothing in it depends on its place."""
    shutil.copytree(published, tmp_path / "store")
    return FolderStore((tmp_path / "store").as_uri(), tmp_path / "store")


@pytest.fixture(autouse=True)
def _stop_publishing_after_a_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests of killed processes leave a publishing thread behind, which would publish during another test."""
    started: list[WorkingCopy] = []
    begin = WorkingCopy.start

    def start(working: WorkingCopy) -> None:
        started.append(working)
        begin(working)

    monkeypatch.setattr(WorkingCopy, "start", start)
    yield
    for working in started:
        working.stop()
