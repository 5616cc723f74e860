"""Files are written whole or not at all, and a lock has one holder."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prvr.files import Busy, exclusive_lock, recover_folders, whole_file, whole_folder, write_whole


def test_text_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "note"
    write_whole(path, "one")
    write_whole(path, "two")
    assert path.read_text("utf-8") == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "clip"
    with whole_file(path) as partial:
        partial.write_text("one", "utf-8")
        assert not path.exists()
    with pytest.raises(RuntimeError), whole_file(path) as partial:  # noqa: PT012 (it fails half way)
        partial.write_text("two", "utf-8")
        raise RuntimeError
    assert path.read_text("utf-8") == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "best"
    for content in ("one", "two"):
        with whole_folder(folder) as partial:
            (partial / "file").write_text(content, "utf-8")
            assert partial != folder
    with pytest.raises(RuntimeError), whole_folder(folder) as partial:  # noqa: PT012 (it fails half way)
        (partial / "file").write_text("three", "utf-8")
        raise RuntimeError
    assert (folder / "file").read_text("utf-8") == "two"
    assert list(tmp_path.iterdir()) == [folder]


def test_leftovers_of_a_kill_are_put_right(tmp_path: Path) -> None:
    for name in (".best.123.part", ".best.old", ".last.old", "last"):  # killed between two renames; and after them
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, "utf-8")
    recover_folders(tmp_path)
    assert {p.name: (p / "file").read_text("utf-8") for p in tmp_path.iterdir()} == {
        "best": ".best.old",
        "last": "last",
    }


def test_a_lock_has_one_holder_who_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive_lock(lock) as held:
        assert held
        with pytest.raises(Busy, match=r"lock is held by process \d+ on "), exclusive_lock(lock):
            pass
    with exclusive_lock(lock):
        pass


def test_whoever_waits_gets_a_lock_when_it_is_free(tmp_path: Path) -> None:
    order = []
    with exclusive_lock(tmp_path / "lock"):

        def wait() -> None:
            with exclusive_lock(tmp_path / "lock", wait=True):
                order.append("second")

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.3)
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\nfrom prvr.files import exclusive_lock\n"
        "with exclusive_lock(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder, holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match=f"process {holder.pid} on"), exclusive_lock(tmp_path / "lock"):
            pass
        holder.kill()
        holder.wait()
        with exclusive_lock(tmp_path / "lock") as held:
            assert held


def test_a_lock_in_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "missing" / "lock"):
        pass


def test_a_link_at_a_temporary_or_lock_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with whole_file(tmp_path / "a") as first, whole_file(tmp_path / "a") as second:
        assert first != second  # nobody can foresee the name
    monkeypatch.setattr("secrets.token_hex", lambda count: "guessed")  # except here
    (tmp_path / ".a.guessed.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "theirs")
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"), exclusive_lock(tmp_path / "lock"):
        pass
    assert victim.read_text() == "mine"
