"""Processes say what they do to a library, and others see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.files import exclusive_lock
from prvr.library import AddProgress, Library, LibraryActivity


def test_adding_and_reindexing_are_seen_while_they_last(library: Library, own: Path) -> None:
    seen: list[LibraryActivity] = []

    def look(now: AddProgress) -> None:
        seen.extend(library.activities())

    library.add([own], progress=look)
    assert {(each.what, each.folders) for each in seen} == {("add", (str(own),))}
    assert library.activities() == []
    seen.clear()
    library.reindex(rate=1.0, progress=look)
    assert {each.what for each in seen} == {"reindex"}
    assert library.activities() == []


def test_another_process_sees_it(in_folder: Library, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_folder.announce("watch", [str(own)]) as announcement:
        announcement.update(state="indexing", done=1, total=3, file=str(own / "a.mp4"))
        command = [sys.executable, "-m", "prvr", "library", "status", "--library", str(in_folder.folder)]
        assert main(command[3:]) == 0
        assert f"watching {own}: 2 of 3, a.mp4 (process" in capsys.readouterr().out
        (found,) = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)["activity"]
        assert (found["what"], found["done"], found["total"]) == ("watch", 1, 3)
    assert not (in_folder.folder / "activity").exists()


def test_what_a_killed_process_left_is_ignored_and_then_deleted(in_folder: Library) -> None:
    folder = in_folder.folder / "activity"
    folder.mkdir()
    left = {"what": "add", "folders": ["/films"], "process": 1, "machine": "here", "since": 0.0}
    for name, text in (
        ("killed", json.dumps(left)),
        ("half", '{"what": "wat'),
        ("other", '{"what": "?", "folders": []}'),
    ):
        (folder / f"{name}.json").write_text(text)
    assert in_folder.activities() == []
    with exclusive_lock(folder / "killed.lock"):  # as if it were alive
        assert [each.describe() for each in in_folder.activities()] == ["adding /films (process 1 on here)"]
    with in_folder.announce("add"):
        assert not (folder / "killed.json").exists()


def test_what_killed_watchers_left_is_deleted_if_it_says_nothing_or_is_old(in_folder: Library) -> None:
    folder = in_folder.folder / "activity"
    folder.mkdir()
    for name, file in (("idle", None), ("crashed", "/films/a.mp4"), ("old", "/films/a.mp4")):
        (folder / f"{name}.json").write_text(json.dumps({"what": "watch", "folders": ["/films"], "file": file}))
    os.utime(folder / "old.json", (0, 0))
    with in_folder.announce("add"):
        assert {path.stem for path in folder.glob("*.json") if path.stem in ("idle", "crashed", "old")} == {"crashed"}


@pytest.mark.skipif(sys.platform == "win32", reason="there a lock cannot be looked at without taking it")
def test_a_reader_without_permission_to_write_knows_who_is_alive(
    in_folder: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = in_folder.folder / "activity"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps({"what": "watch", "folders": ["/films"]}))
    (folder / "one.lock").touch()
    opened = os.open

    def read_only(path: object, flags: int, *more: object, **named: object) -> int:  # root may write everywhere
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *more, **named)  # type: ignore[call-overload, no-any-return]

    with exclusive_lock(folder / "one.lock"), monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        assert len(in_folder.activities()) == 1
    monkeypatch.setattr(os, "open", read_only)
    assert in_folder.activities() == []


def test_a_disk_that_cannot_be_written_stops_no_work(in_folder: Library) -> None:
    (in_folder.folder / "activity").write_text("a file where the folder should be")
    with in_folder.announce("add"):
        assert in_folder.activities() == []
