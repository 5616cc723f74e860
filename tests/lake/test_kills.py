"""`prvr library add` to a bucket, killed at random moments: what is there is complete, and the same command goes on."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from prvr.lake import create_library, library_exists, open_library
from prvr.library import AddProgress, LibrarySettings
from prvr.worlds import RenderedWorld
from tests.lake.conftest import RATE, Said, finish, require_unique, start


def add(folder: Path, address: str, kill_after: float | None, signal_number: int = signal.SIGKILL) -> Said:
    process = start("library", "add", folder, "--library", address, "--encoder", "plain", "--rate", 2)
    if kill_after is not None:
        time.sleep(kill_after)
        process.send_signal(signal_number)
    return finish(process)


def killed_often(folder: Path, address: str, videos: int, kills: int, longest: float, seed: int) -> None:
    chance, killed, counts = random.Random(seed), 0, [0]
    while True:
        said = add(folder, address, chance.uniform(0.05, longest) if killed < kills else None)
        if library_exists(address):
            require_unique(open_library(address))
            counts.append(len(open_library(address).videos()))
        if said.status == 0:
            break
        assert said.status == -signal.SIGKILL, said
        killed += 1
    assert killed > 0
    assert counts == sorted(counts)  # nothing that was committed is lost
    require_unique(open_library(address), videos)
    sections = open_library(address).snapshot().tracks["frames"]
    assert len(sections) == videos


@pytest.mark.slow
def test_killed_three_times(bucket: str, own: Path) -> None:
    killed_often(own, f"{bucket}/films", 3, kills=3, longest=1.0, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_killed_a_dozen_times(address: str, films: RenderedWorld, seed: int) -> None:
    killed_often(films.folder, address, len(films.videos), kills=12, longest=2.0, seed=seed)


def test_an_interrupt_commits_what_is_finished(address: str, own: Path) -> None:
    """Ctrl-C while the third film is decoded."""
    library = create_library(address, LibrarySettings("plain", rate=RATE))

    def interrupt(progress: AddProgress) -> None:
        if progress.files_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.add([own], progress=interrupt)
    require_unique(library, 2)
    assert len(library.add([own]).added) == 1


@pytest.mark.slow
def test_a_real_interrupt(bucket: str, films: RenderedWorld) -> None:
    address = f"{bucket}/films"
    process = start(
        "library", "add", films.folder, "--library", address, "--encoder", "plain", "--rate", 8, commit_seconds=600
    )
    end = time.monotonic() + 120
    while not library_exists(address):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    said = finish(process)
    if said.status == 130:
        assert "finished videos are kept" in said.err
        require_unique(open_library(address))
    said = finish(start("library", "add", films.folder, "--library", address))
    assert said.status == 0, said
    require_unique(open_library(address), len(films.videos))
