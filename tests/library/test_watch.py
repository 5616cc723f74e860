"""A watcher keeps a library in step with folders, and removes nothing that may only be away."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.lake import create_library
from prvr.library import FolderWatcher, Library, LibraryError, LibrarySettings, WatchEvent, WatchOptions
from prvr.library import watch as watch_module
from prvr.library.watch_changes import is_open_for_writing
from tests.waiting import until

pytest.importorskip("watchfiles", reason='watching needs watchfiles: pip install "prvr[watch]"')
QUICK = WatchOptions(settle=0.3, rescan=60)


class Watching:
    """A watcher that runs in a thread, and what it reported."""

    def __init__(self, library: Library, *folders: Path, options: WatchOptions = QUICK):
        self.library, self.events = library, list[WatchEvent]()
        self.stop = threading.Event()
        self.watcher = FolderWatcher(library, folders, options, report=self.events.append)
        self.thread = threading.Thread(target=self.watcher.run, args=[self.stop])

    def names(self) -> set[str]:
        return {video.name for video in self.library.videos("ok")}

    def kinds(self, name: str) -> list[str]:
        return [event.kind for event in self.events if event.path is not None and event.path.name == name]


@contextmanager
def watching(library: Library, *folders: Path, options: WatchOptions = QUICK) -> Iterator[Watching]:
    found = Watching(library, *folders, options=options)
    found.thread.start()
    try:
        yield found
    finally:
        found.stop.set()
        found.thread.join(60)
    assert not found.thread.is_alive()


@pytest.fixture
def spare(own: Path, tmp_path: Path) -> list[Path]:
    """Three of the six films of ``own``, moved to another folder."""
    (tmp_path / "spare").mkdir()
    return [Path(shutil.move(path, tmp_path / "spare")) for path in sorted(own.glob("*.mp4"))[3:]]


def test_it_adds_updates_moves_and_removes(library: Library, own: Path, spare: list[Path]) -> None:
    kept, renamed, deleted = sorted(own.glob("*.mp4"))
    with watching(library, own) as found:
        until(lambda: len(found.names()) == 3)
        numbers = {video.digest: video.id for video in library.videos()}
        (own / "new" / "deep").mkdir(parents=True)
        shutil.copy(spare[0], own / "new" / "deep" / "added.mp4")
        shutil.copy(spare[1], own / ".hidden.mp4")
        shutil.copyfile(spare[2], kept)
        renamed.rename(own / "new" / "renamed.mp4")
        deleted.unlink()
        until(lambda: found.names() == {kept.name, "added.mp4", "renamed.mp4"})
        until(lambda: found.kinds(kept.name) == ["added", "updated"])
        moved = next(video for video in library.videos() if video.name == "renamed.mp4")
        assert moved.id == numbers[moved.digest]
        assert found.kinds("renamed.mp4") == ["moved"]
        until(lambda: found.kinds(deleted.name) == ["added", "removed"])
        (own / "new").rename(own / "other")
        until(lambda: {v.path.parent for v in library.videos()} == {own, own / "other", own / "other" / "deep"})
        until(lambda: found.kinds("renamed.mp4") == ["moved", "moved"])
    assert library.verify().ok
    assert library.activities() == []


def test_a_start_finds_what_happened_while_nobody_watched(in_folder: Library, own: Path, spare: list[Path]) -> None:
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 3)
    first, second, third = sorted(own.glob("*.mp4"))
    first.unlink()
    second.rename(own / "second.mp4")
    shutil.copy(spare[0], own / "new.mp4")
    with watching(in_folder, own) as found:
        until(lambda: found.names() == {"second.mp4", third.name, "new.mp4"})
        until(lambda: found.kinds("second.mp4") == ["moved"])
        assert found.kinds(third.name) == []


def test_on_a_lake_files_that_only_another_machine_has_stay(tmp_path: Path, own: Path, spare: list[Path]) -> None:
    pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    lake = create_library(str(tmp_path / "library.lance"), LibrarySettings("plain", rate=2.0))
    elsewhere = Path(shutil.copy(spare[0], own / "elsewhere.mp4"))
    lake.add([elsewhere])
    elsewhere.unlink()  # as on another machine with the same folder
    here = sorted(own.glob("*.mp4"))
    with watching(lake, own) as found:
        until(lambda: len(found.names()) == 4)
        here[0].unlink()
        until(lambda: here[0].name not in found.names())
        time.sleep(0.6)
        assert found.names() == {"elsewhere.mp4", here[1].name, here[2].name}


def test_a_file_is_indexed_only_when_it_is_complete(in_folder: Library, own: Path, spare: list[Path]) -> None:
    content = spare[0].read_bytes()
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 3)
        (own / "placeholder.mp4").touch()
        with (own / "slow.mp4").open("wb") as file:
            for part in range(8):
                file.write(content[part * len(content) // 8 : (part + 1) * len(content) // 8])
                file.flush()
                time.sleep(0.1)
            time.sleep(1.0)  # longer than it must stay the same, but it is still open
            if sys.platform == "linux":
                assert found.kinds("slow.mp4") == []
                until(lambda: "not complete" in in_folder.activities()[0].message)
        until(lambda: "slow.mp4" in found.names())
        until(lambda: found.kinds("slow.mp4") == ["added"])
        assert found.kinds("placeholder.mp4") == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are open")
def test_an_open_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb"):
        assert is_open_for_writing(path)
    with path.open("rb"):
        assert not is_open_for_writing(path)
    assert not is_open_for_writing(tmp_path / "none")


@pytest.mark.parametrize("leaves", ["nothing", "an empty folder"])
def test_the_videos_of_a_disk_that_is_away_stay(in_folder: Library, own: Path, tmp_path: Path, leaves: str) -> None:
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 6)
        numbers = {video.id for video in in_folder.videos()}
        own.rename(tmp_path / "away")
        if leaves == "an empty folder":
            own.mkdir()
        until(lambda: "waiting" in found.kinds("own"))
        time.sleep(1.0)
        assert len(found.names()) == 6
        until(lambda: str(own) in in_folder.activities()[0].message)
        if own.exists():
            own.rmdir()
        (tmp_path / "away").rename(own)
        until(lambda: found.kinds("own")[-1] == "back")
        gone = sorted(own.glob("*.mp4"))[0]
        gone.unlink()
        until(lambda: gone.name not in found.names())
        assert {video.id for video in in_folder.videos()} < numbers
    shutil.rmtree(own)
    with watching(in_folder, own) as found:  # a start without the disk
        until(lambda: "waiting" in found.kinds("own"))
        time.sleep(0.6)
        assert len(found.names()) == 5


def test_the_advice_to_forget_a_folder_can_be_followed(
    in_folder: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRVR_LIBRARY", "another.prvr")
    place = own / "it's away"
    place.mkdir()
    for film in sorted(own.glob("*.mp4"))[2:]:
        film.rename(place / film.name)
    with watching(in_folder, place) as found:
        until(lambda: len(found.names()) == 4)
        place.rename(own / "elsewhere")
        until(lambda: "waiting" in found.kinds(place.name))
        (event,) = [event for event in found.events if event.kind == "waiting"]
    program, *command = shlex.split(event.text.rpartition(": ")[2])
    assert program == "prvr"
    assert main(command) == 0
    assert in_folder.videos() == []


def test_a_folder_without_permission_and_links_to_nowhere_remove_nothing(
    in_folder: Library, own: Path, tmp_path: Path
) -> None:
    inner, disk = own / "inner", tmp_path / "disk"
    inner.mkdir()
    disk.mkdir()
    first, second, *_ = sorted(own.glob("*.mp4"))
    first.rename(inner / first.name)
    second.rename(disk / second.name)
    (own / "linked.mp4").symlink_to(disk / second.name)
    with watching(in_folder, own, options=WatchOptions(settle=0.2, rescan=0.5)) as found:
        until(lambda: len(found.names()) == 6)
        (disk / second.name).rename(tmp_path / "elsewhere.mp4")
        inner.chmod(0)
        try:
            time.sleep(1.5)
            assert len(found.names()) == 6
        finally:
            inner.chmod(0o755)


def test_a_file_that_failed_is_tried_again_when_it_changes(in_folder: Library, own: Path, spare: list[Path]) -> None:
    (own / "broken.mp4").write_bytes(b"no film at all" * 100)
    with watching(in_folder, own) as found:
        until(lambda: found.kinds("broken.mp4") == ["failed"])
        until(lambda: len(found.names()) == 3)
        time.sleep(0.6)
        assert found.kinds("broken.mp4") == ["failed"]
        shutil.copyfile(spare[0], own / "broken.mp4")
        until(lambda: "broken.mp4" in found.names())


def test_a_name_that_is_not_text_is_told_once_and_ends_nothing(
    in_folder: Library, own: Path, spare: list[Path]
) -> None:
    def named(name: bytes, path: Path) -> Path:
        try:
            return Path(shutil.copy(path, os.fsdecode(os.fsencode(own) + b"/" + name)))
        except OSError:
            pytest.skip("this disk takes no name that is not UTF-8")

    first = named(b"caf\xe9.mp4", spare[0])
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 3)
        later = named(b"na\xefve.mp4", spare[1])
        until(lambda: found.kinds(later.name) == ["failed"])
        shutil.copy(spare[2], own / "good.mp4")
        until(lambda: "good.mp4" in found.names())
        first.rename(own / "café.mp4")
        until(lambda: "café.mp4" in found.names())
    assert found.kinds(first.name) == found.kinds(later.name) == ["failed"]
    assert {event.text for event in found.events if event.kind == "failed"} == {
        "has a name that is not valid UTF-8: rename it"
    }
    assert "problem" not in {event.kind for event in found.events}


def test_subtitles_that_come_later_are_read(in_folder: Library, own: Path) -> None:
    film = sorted(own.glob("*.mp4"))[0]
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 6)
        film.with_suffix(".srt").write_text("1\n00:00:00,000 --> 00:00:02,000\nhello there\n")
        until(lambda: [hit.line for hit in in_folder.search("hello there")] == ["hello there"])
        until(lambda: found.kinds(film.name) == ["added", "updated"])


def test_an_error_is_reported_once_and_ends_nothing(
    in_folder: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "_FIRST_RETRY", 0.1)
    add, fails = in_folder.adder, True

    def adder(**options: object) -> object:
        if fails:
            raise LibraryError("the disk is full")
        return add(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(in_folder, "adder", adder)
    with watching(in_folder, own) as found:
        until(lambda: any(event.kind == "problem" for event in found.events))
        until(lambda: found.watcher._failures > 2)
        assert [event.text for event in found.events] == ["the disk is full (trying again)"]
        fails = False
        until(lambda: len(found.names()) == 6)


def test_one_watcher_for_each_folder(in_folder: Library, own: Path, tmp_path: Path) -> None:
    (own / "inner").mkdir()
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 6)
        for folder in (own, own / "inner", tmp_path):
            with pytest.raises(LibraryError, match=f"is watched for .* by process {os.getpid()}"):
                FolderWatcher(in_folder, [folder]).run()
        other = Library.create(tmp_path / "other", encoder="plain")
        with watching(other, own) as second:
            until(lambda: len(second.names()) == 6)


def test_mistakes_are_errors(in_folder: Library, own: Path) -> None:
    film = sorted(own.glob("*.mp4"))[0]
    for folders, expected in (
        ([], "no folder was given"),
        ([film], "is a file"),
        ([own / "none"], "does not exist"),
        (["s3://bucket/films"], "cannot be watched"),
    ):
        with pytest.raises(LibraryError, match=expected):
            FolderWatcher(in_folder, folders).run()
    with pytest.raises(LibraryError, match="above 0"):
        WatchOptions(settle=0)
    assert [each.path for each in FolderWatcher(in_folder, [own, own / "inner", own]).folders] == [own]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_command_ends_with_a_signal_and_status_shows_it(
    in_folder: Library, own: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "prvr", "library", "watch", str(own), "--library", str(in_folder.folder)]
    process = subprocess.Popen([*command, "--settle", "0.3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"watching {own} for ")
        added = [process.stdout.readline() for _ in range(6)]
        assert all(line.startswith("added ") for line in added)
        until(lambda: [each.state for each in in_folder.activities()] == ["waiting"])
        (activity,) = in_folder.activities()
        assert (activity.what, activity.process, activity.folders) == ("watch", process.pid, (str(own),))
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert output.startswith("stopped")
    assert "Traceback" not in errors
    assert in_folder.activities() == []
    assert in_folder.verify().ok


def test_a_file_that_may_have_crashed_the_last_watcher_comes_last(in_folder: Library, own: Path) -> None:
    suspect = sorted(own.glob("*.mp4"))[0]
    folder = in_folder.folder / "activity"
    folder.mkdir()
    left = {"what": "watch", "folders": [str(own)], "state": "indexing", "file": str(suspect)}
    (folder / "killed.json").write_text(json.dumps(left))
    with watching(in_folder, own) as found:
        until(lambda: found.kinds(suspect.name) == ["added"])
        added = [event.path for event in found.events if event.kind == "added"]
        assert added == [*sorted(own.glob("*.mp4"))[1:], suspect]


@pytest.mark.parametrize("restarted", [False, True])
def test_the_videos_of_a_disk_inside_a_folder_stay(
    in_folder: Library, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    disk, mounted = own / "disk", True
    disk.mkdir()
    film = sorted(own.glob("*.mp4"))[0]
    film.rename(disk / film.name)
    monkeypatch.setattr(os.path, "ismount", lambda path: mounted and path == disk)  # mounting needs root
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 6)
        until(lambda: (in_folder.folder / "mounts.json").exists())
        if not restarted:
            mounted = False
            disk.rename(tmp_path / "away")
            until(lambda: found.kinds("disk") == ["waiting"])
    if restarted:
        mounted = False
        disk.rename(tmp_path / "away")
    with watching(in_folder, own) as found:
        until(lambda: found.kinds("disk") == ["waiting"])
        other = sorted(own.glob("*.mp4"))[0]
        other.unlink()
        until(lambda: other.name not in found.names())
        assert film.name in found.names()
        (tmp_path / "away").rename(disk)  # as a plain folder
        until(lambda: found.kinds("disk") == ["waiting", "back"])
        sorted(own.glob("*.mp4"))[0].rename(disk / "more.mp4")  # an empty one could be a disk that is away
        until(lambda: "more.mp4" in found.names())
        (disk / film.name).unlink()
        until(lambda: film.name not in found.names())


def test_a_folder_inside_that_is_found_empty_may_be_a_disk_that_is_away(in_folder: Library, own: Path) -> None:
    disk, (film, other, *_) = own / "disk" / "films", sorted(own.glob("*.mp4"))
    disk.mkdir(parents=True)
    film.rename(disk / film.name)
    in_folder.add([own])
    (disk / film.name).rename(own.parent / film.name)  # before any watcher saw it
    disk.rmdir()
    with watching(in_folder, own) as found:
        until(lambda: found.kinds("disk") == ["waiting"])
        other.unlink()
        until(lambda: other.name not in found.names())
        assert film.name in found.names()
        disk.mkdir()
        (own.parent / film.name).rename(disk / film.name)
        until(lambda: found.kinds("disk") == ["waiting", "back"])
        time.sleep(0.6)
        (disk / film.name).unlink()  # now it was seen, so it is gone
        until(lambda: film.name not in found.names())


@pytest.mark.slow
def test_a_killed_watcher_is_followed_by_the_next(in_folder: Library, own: Path) -> None:
    command = [sys.executable, "-m", "prvr", "library", "watch", str(own), "--library", str(in_folder.folder)]
    process = subprocess.Popen([*command, "--settle", "0.3"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("watching ")
    until(lambda: any(each.file for each in in_folder.activities()))
    process.kill()
    process.wait()
    assert [*(in_folder.folder / "activity").glob("*.json")]  # it could not take its announcement back
    assert in_folder.activities() == []
    with watching(in_folder, own) as found:
        until(lambda: len(found.names()) == 6)
        assert [each.process for each in in_folder.activities()] == [os.getpid()]
    assert in_folder.verify().ok
