"""Processes say what they do to a library, and others see it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prvr.library import AddProgress, Library, LibraryActivity
from prvr.library import activity as activity_module


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


def test_another_process_sees_it(in_folder: Library, own: Path) -> None:
    with in_folder.announce("watch", [str(own)]) as announcement:
        announcement.update(state="indexing", done=1, total=3, file=str(own / "a.mp4"))
        time.sleep(1.5)  # changes are written once a second
        command = [sys.executable, "-m", "prvr", "library", "status", "--library", str(in_folder.folder)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"watching {own}: 2 of 3, a.mp4 (process" in shown
        (found,) = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)["activity"]
        assert (found["what"], found["done"], found["total"]) == ("watch", 1, 3)
    assert not (in_folder.folder / "activity").exists()


def test_what_a_killed_process_left_is_ignored_and_then_deleted(
    in_folder: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = in_folder.folder / "activity"
    folder.mkdir()
    left = {"what": "watch", "folders": ["/films"], "process": 1, "machine": "here", "since": 0.0}
    (folder / "killed.json").write_text(json.dumps({**left, "at": time.time() - 1000}))
    (folder / "now.json").write_text(json.dumps({**left, "at": time.time()}))
    for name, text in (("half", '{"what": "wat'), ("other", '{"at": 1}'), ("newer", '{"what": "?", "folders": []}')):
        (folder / f"{name}.json").write_text(text)
    assert [each.describe() for each in in_folder.activities()] == ["watching /films (process 1 on here)"]
    with in_folder.announce("add"):
        assert not (folder / "killed.json").exists()
    monkeypatch.setattr(activity_module, "_STALE", 0.0)
    assert in_folder.activities() == []


def test_a_disk_that_cannot_be_written_stops_no_work(in_folder: Library) -> None:
    (in_folder.folder / "activity").write_text("a file where the folder should be")
    with in_folder.announce("add"):
        assert in_folder.activities() == []
