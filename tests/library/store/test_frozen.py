"""A process that stands still in the middle of its work: readers go on, writers learn whom they wait for."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prvr.library import Library, LibraryError
from prvr.library.store import claims
from prvr.library.store.catalogue import Catalogue
from tests.library.store.test_faults import answers

_FREEZE = """
import os, signal, sys
from pathlib import Path
from prvr.library.store.catalogue import Catalogue
with Catalogue(Path(sys.argv[1])).writing() as db:
    db.execute("UPDATE videos SET tags = ?", ('["frozen"]',))
    if sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGSTOP)
"""
_HOLD = """
import os, signal, sys
from pathlib import Path
from prvr.library.store.claims import claim
held = claim(Path(sys.argv[1]), Path(sys.argv[2]))
assert held is not None
os.kill(os.getpid(), signal.SIGSTOP)
"""


def stopped(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process, or a child of it, stands still; its number.

    strace stops its child for a moment at every call, so it must be seen standing still ten times in a row.
    """
    still: dict[str, int] = {}
    for _ in range(1200):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for number in (str(process.pid), *children):
            still[number] = still.get(number, 0) + 1 if stands_still(number) else 0
            if still[number] == 10:
                return int(number)
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError("it did not stop")


def stands_still(number: str) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # a child that has just ended
        return re.search(r"^State:\s+[Tt]", Path(f"/proc/{number}/status").read_text(), re.MULTILINE) is not None
    return False


def require_readers(library: Library, before: object) -> None:
    began = time.monotonic()
    fresh = Library.open(library.folder)
    assert answers(fresh) == before
    assert answers(library) == before
    assert fresh.verify().ok
    assert time.monotonic() - began < 60  # not the minutes that a writer may wait


def test_readers_do_not_wait_for_a_writer_that_stands_still(own: Path, library: Library) -> None:
    library.add([own])
    before = answers(library)
    process = subprocess.Popen([sys.executable, "-c", _FREEZE, str(library.folder), "before"])
    try:
        number = stopped(process)
        require_readers(library, before)
        assert all(video.tags == () for video in library.videos())
        says = pytest.raises(LibraryError, match=f"process {number} on .* is writing to .* not finished in 1 seconds")
        with says, Catalogue(library.folder).writing(wait=1.0):
            pass
    finally:
        process.kill()
        process.wait()
    library.change_tags(1, add=["free"])
    assert library.video(1).tags == ("free",)  # type: ignore[union-attr]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("moment", [1, 2, 3])
def test_readers_do_not_wait_for_a_writer_that_stands_still_in_its_commit(
    moment: int, own: Path, library: Library
) -> None:
    """Stopped where it synchronises the log's head, the commit in the log, and the file that the log is copied into."""
    library.add([own])
    before = answers(library)
    inject = f"inject=fdatasync:signal=STOP:when={moment}"
    words = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", inject]
    process = subprocess.Popen([*words, sys.executable, "-c", _FREEZE, str(library.folder), "inside"])
    try:
        number = stopped(process)
        require_readers(library, before)
        assert {video.tags for video in library.videos()} in ({()}, {("frozen",)})  # all of it, or nothing
        os.kill(number, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert library.verify().ok


def test_adding_does_not_wait_for_ever_for_a_file_that_another_holds(
    own: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_WAIT_SECONDS", 0.5)
    held, *others = sorted(own.iterdir())
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(library.folder), str(held)])
    try:
        number = stopped(process)
        report = library.add([own])
        assert sorted(report.added) == others
        assert [*report.failed] == [held]
        assert f"process {number} on" in report.failed[held]
    finally:
        process.kill()
        process.wait()
    assert library.add([own]).added == [held]
    assert [*(library.folder / "claims").iterdir()] == []
