"""A library that is copied again after it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.library import Library, copying
from tests.library.conftest import RATE


@pytest.fixture
def origin(own: Path, tmp_path: Path) -> Library:
    source = Library.create(tmp_path / "origin", encoder="plain", rate=RATE)
    source.add([own])
    return source


def copied(origin: Library, copy: Library) -> tuple[tuple[int, int], list[str]]:
    """How many videos were copied and were there already, and what was reported."""
    lines: list[str] = []
    return copying.copy_videos(origin, copy, lines.append), lines


def names(library: Library) -> list[str]:
    return sorted(video.name for video in library.videos())


def test_moved_videos_are_moved_in_the_copy(origin: Library, library: Library, own: Path) -> None:
    assert copied(origin, library)[0] == (6, 0)
    numbers = {video.digest: video.id for video in library.videos()}
    for name in ("test0000", "test0001"):
        (own / f"{name}.mp4").rename(own / f"renamed-{name}.mp4")
    assert len(origin.add([own]).moved) == 2
    counts, lines = copied(origin, library)
    assert counts == (0, 6)
    assert lines[0] == "0 of 2 videos moved"
    assert not any("only in" in line for line in lines)
    assert names(library) == names(origin)
    assert {video.digest: video.id for video in library.videos()} == numbers


def test_two_files_of_one_content_are_both_moved(origin: Library, library: Library, own: Path) -> None:
    (own / "twin.mp4").write_bytes((own / "test0000.mp4").read_bytes())
    origin.add([own])
    copied(origin, library)
    (own / "moved").mkdir()
    for name in ("test0000.mp4", "twin.mp4"):
        (own / name).rename(own / "moved" / name)
    assert len(origin.add([own]).moved) == 2
    assert copied(origin, library)[0] == (0, 7)
    assert {video.path for video in library.videos()} == {video.path for video in origin.videos()}


def test_a_copy_of_a_file_is_no_move(origin: Library, library: Library, own: Path) -> None:
    copied(origin, library)
    (own / "twin.mp4").write_bytes((own / "test0000.mp4").read_bytes())
    assert len(origin.add([own]).added) == 1
    assert copied(origin, library)[0] == (1, 6)
    assert names(library) == names(origin)


def test_videos_that_only_the_copy_holds_are_named_and_stay(origin: Library, library: Library, own: Path) -> None:
    copied(origin, library)
    origin.remove([own / "test0001.mp4", own / "test0002.mp4"])
    counts, lines = copied(origin, library)
    assert counts == (0, 4)
    assert lines[-3].startswith(f"2 only in {library.address}, not in {origin.address} ")
    assert lines[-2:] == [f"  {own / 'test0001.mp4'}", f"  {own / 'test0002.mp4'}"]
    assert len(library.videos()) == 6


def test_few_of_many_videos_are_named(
    origin: Library, library: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(origin, library)
    origin.remove([own])
    monkeypatch.setattr(copying, "_NAMED", 2)
    assert copied(origin, library)[1][-3:] == [*(f"  {own / f'test000{n}.mp4'}" for n in (0, 1)), "  and 4 more"]
