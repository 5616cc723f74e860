"""Processes say what they do to a library, and others see it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

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


def test_a_disk_that_cannot_be_written_stops_no_work(in_folder: Library) -> None:
    (in_folder.folder / "activity").write_text("a file where the folder should be")
    with in_folder.announce("add"):
        assert in_folder.activities() == []
