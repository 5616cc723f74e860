"""What killed and hindered processes leave behind does not stand in the way, and is swept."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import Library, LibraryError
from tests.library.store.test_faults import answers

_KILLED = """
import os, signal, sys
from pathlib import Path
from prvr.library.store.settings import LibraryRecord, LibrarySettings, write_record
name, number = sys.argv[2], int(sys.argv[3])
real, seen = getattr(os, name), []
def killed(*words, **more):
    seen.append(1)
    if len(seen) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words, **more)
setattr(os, name, killed)
write_record(Path(sys.argv[1]), LibraryRecord(LibrarySettings("plain"), {}))
"""


@pytest.mark.parametrize(("call", "number"), [("fsync", 1), ("replace", 1), ("fsync", 2), ("link", 1), ("fsync", 3)])
def test_a_kill_while_the_settings_are_written(call: str, number: int, own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", _KILLED, str(folder), call, str(number)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    if (folder / "library.json").exists():
        (folder / "library.json").unlink()  # this program wrote no recipes: only the leftovers count here
    assert main(["library", "add", str(own), "--library", str(folder), "--encoder", "plain"]) == 0
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert Library.open(folder).verify().ok


def test_parts_of_files_are_swept_when_nobody_can_be_writing_them(own: Path, library: Library) -> None:
    library.add([own])
    (library.folder / "activity").mkdir(exist_ok=True)
    old, new = library.folder / "activity" / ".1.json.0a1b.part", library.folder / ".library.json.2c3d.part"
    for path in (old, new):
        path.write_text("{")
    os.utime(old, (1e9, 1e9))
    model = library.folder / ".model-4e5f.6a7b.part"  # its last file is still being written
    model.mkdir()
    (model / "weights").write_text("")
    os.utime(model, (1e9, 1e9))
    library.remove([own])
    library.add([own])
    assert not old.exists()
    assert new.exists()  # somebody may be about to rename it
    assert model.exists()


def test_claims_of_killed_processes_are_swept(own: Path, library: Library) -> None:
    (library.folder / "claims").mkdir()
    (library.folder / "claims" / ("0" * 32)).write_text("process 1 on a machine that is off")
    library.add([own])
    assert [*(library.folder / "claims").iterdir()] == []


def test_removing_on_a_full_disk_changes_nothing_or_frees_space(
    own: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add([own])
    before, paths = answers(library), sorted(own.iterdir())
    size = shards_bytes(library)
    real = os.write

    def write(handle: int, data: bytes | memoryview) -> int:
        if "shards" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(LibraryError, match="too full to remove videos, so nothing was removed"):
        library.remove(paths[:2])
    assert answers(library) == answers(Library.open(library.folder)) == before
    assert library.verify().ok
    assert shards_bytes(library) == size
    library.remove(paths)  # nothing has to be copied
    assert shards_bytes(library) == 0
    monkeypatch.undo()
    library.add([own])
    assert sorted(answers(library)) == sorted(before)


def shards_bytes(library: Library) -> int:
    return sum(file.stat().st_size for file in library.folder.glob("shards/*/*"))
