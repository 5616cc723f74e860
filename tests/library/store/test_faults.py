"""Kills, several processes, full disks: every video is in the library or not, and the rest goes on."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from prvr.library import Library, LibraryError
from prvr.media import decoding
from prvr.training import Run
from prvr.worlds import RenderedWorld

RATE = 2.0
SENTENCES = ("a red square moves to the left", "a green circle over sand", "something blue falls")
_ADD = """
import sys
from prvr.library import Library
lib = Library.open(sys.argv[1])
print("ready", flush=True)
report = lib.add(sys.argv[2:])
print(len(report.added), flush=True)
"""


def start(lib: Library, *paths: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", textwrap.dedent(_ADD), str(lib.folder), *map(str, paths)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def answers(lib: Library) -> list[tuple[str, float, float, float]]:
    return [(h.video.name, h.start, h.end, h.score) for s in SENTENCES for h in lib.search(s, limit=100)]


_PRVR = ("-m", "prvr")
_PRVR_WITH_DECODERS = (
    "-c",
    "import sys, prvr.media.decoding as d; d._LARGE = -1; from prvr.cli import main; sys.exit(main(sys.argv[1:]))",
)


def killed_often(
    films: RenderedWorld, folder: Path, kills: int, seed: int, *flags: str, prvr: Sequence[str] = _PRVR
) -> Library:
    """`prvr library add`, killed at random moments: some at any time from its start, most once it works on a file."""
    rng = random.Random(seed)
    command = [sys.executable, *prvr, "library", "add", str(films.folder), "--library", str(folder), *flags]
    began = time.monotonic()
    whole = start_up = 0.0
    for number in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        launched = time.monotonic()
        if number and rng.random() < 0.2:
            time.sleep(rng.uniform(0, whole))
        else:
            at_work(process, folder)
            start_up = start_up or time.monotonic() - launched
            whole = whole or 1.2 * start_up
            time.sleep(rng.expovariate(3.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not (folder / "library.json").exists():
            continue
        lib = Library.open(folder)
        assert lib.verify().ok  # at every moment
        names = [video.path for video in lib.videos()]
        assert len(names) == len(set(names))
        lib.search(SENTENCES[0])
        if len(names) == len(films.videos):  # done: begin again with some of them
            lib.remove(rng.sample(names, 8))
    print(f"{kills} kills in {time.monotonic() - began:.0f} s")
    lib = Library.open(folder)
    assert not lib.add([films.folder]).failed
    return lib


def at_work(process: subprocess.Popen[bytes], library: Path) -> None:
    """Wait until a file is claimed, or the command ends because nothing is left to do."""
    claims = library / "claims"
    before = {path.name for path in claims.glob("*")}  # what an earlier kill left
    while process.poll() is None and {path.name for path in claims.glob("*")} <= before:
        time.sleep(0.005)


def same(lib: Library, whole: Library) -> None:
    """Two libraries of the same films answer alike, up to rounding."""
    ours, theirs = sorted(answers(lib)), sorted(answers(whole))
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    assert [row[1:] for row in ours] == [pytest.approx(row[1:], abs=1e-4) for row in theirs]
    assert lib.verify().ok
    leftovers = {p.name for p in lib.folder.iterdir()} - {
        "library.json",
        "catalogue.sqlite",
        "catalogue.sqlite-wal",
        "catalogue.sqlite-shm",
        "catalogue.lock",
        "shards",
        "claims",
        "activity",
    }
    assert not [name for name in leftovers if not name.startswith("model-")]
    assert not [*(lib.folder / "activity").glob("*.json")]  # what killed processes announced is cleared away


def test_kills_lose_and_double_nothing(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    same(killed_often(films, tmp_path / "killed", 3, 1, "--encoder", "plain", "--rate", str(RATE)), whole)


@pytest.mark.slow
def test_fifty_kills_lose_and_double_nothing(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    same(killed_often(films, tmp_path / "killed", 50, 2, "--encoder", "plain", "--rate", str(RATE)), whole)


@pytest.mark.slow
def test_kills_of_adding_with_decoders_in_processes(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    flags = ("--encoder", "plain", "--rate", str(RATE), "--processes", "2")
    same(killed_often(films, tmp_path / "killed", 12, 4, *flags, prvr=_PRVR_WITH_DECODERS), whole)


@pytest.mark.slow
def test_kills_of_adding_with_a_trained_model(films: RenderedWorld, run: Run, trained: Library, tmp_path: Path) -> None:
    flags = ("--model", str(run.path), "--storage", "fp32")
    same(killed_often(films, tmp_path / "killed", 12, 3, *flags), trained)


def test_two_processes_share_the_work(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "shared", encoder="plain", rate=RATE)
    both = [start(lib, films.folder) for _ in range(2)]
    added = [int(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(added) == len(films.videos)  # each file once
    same(lib, whole)
    assert list((lib.folder / "claims").iterdir()) == []


def test_searching_while_adding_and_removing(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "busy", encoder="plain", rate=RATE)
    true = {h.video.name: h.score for h in whole.search(SENTENCES[0], limit=100)}
    problems: list[object] = []
    done = threading.Event()

    def search() -> None:
        reader = Library.open(lib.folder)
        try:
            while not done.is_set():
                for hit in reader.search(SENTENCES[0], limit=100):
                    if abs(hit.score - true[hit.video.name]) > 1e-4:  # another neighbourhood rounds otherwise
                        problems.append((hit.video.name, hit.score))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        lib.add([films.folder])
        lib.remove(sorted(films.videos.values())[3:9])
    lib.add([films.folder])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    same(lib, whole)


def test_a_full_disk_keeps_what_was_added(
    films: RenderedWorld, whole: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = Library.create(tmp_path / "full", encoder="plain", rate=RATE)
    real, room = os.write, [60_000]

    def write(handle: int, data: bytes | memoryview) -> int:
        if "shards" not in os.readlink(f"/proc/self/fd/{handle}"):
            return real(handle, data)
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(handle, data[: room[0]])  # the last bytes that fit, as a disk does
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(LibraryError, match="is full: free some space and run the command again"):
        lib.add([films.folder])
    kept = len(lib.videos())
    assert 0 < kept < len(films.videos)
    assert lib.verify().ok
    assert len(lib.search(SENTENCES[0], limit=100)) == kept
    monkeypatch.undo()
    assert len(lib.add([films.folder]).added) == len(films.videos) - kept
    same(lib, whole)


def test_bytes_that_a_kill_left_behind_the_committed_ones_mean_nothing(own: Path, library: Library) -> None:
    paths = sorted(own.iterdir())
    library.add(paths[:3])
    before = answers(library)
    for path in (library.folder / "shards").rglob("*.bin"):
        with path.open("ab") as file:
            file.write(b"\xff" * 4321)
    (library.folder / "shards" / "99").mkdir()
    fresh = Library.open(library.folder)
    assert answers(fresh) == before
    assert fresh.verify().ok
    fresh.add(paths[3:])
    assert [row for row in answers(fresh) if row[0] in {p.name for p in paths[:3]}] == before
    assert not (library.folder / "shards" / "99").exists()


def test_what_a_kill_leaves_of_the_catalogue_is_put_right(own: Path, library: Library) -> None:
    (library.folder / "catalogue.sqlite").write_bytes(b"")  # killed before its first commit
    assert library.search(SENTENCES[0]).message == "The library holds no videos yet."
    library.add([own])
    before = answers(library)
    program = f"""
import os, signal
from pathlib import Path
from prvr.library.store.catalogue import Catalogue
with Catalogue(Path({str(library.folder)!r})).writing() as db:
    db.execute("PRAGMA cache_size = 1")
    db.execute("PRAGMA cache_spill = 1")
    db.execute("UPDATE videos SET path = path || hex(randomblob(20000))")  # spills into the file before it is committed
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert (library.folder / "catalogue.sqlite-wal").stat().st_size  # what is not committed in it counts for nothing
    assert answers(Library.open(library.folder)) == before
    assert library.verify().ok


def test_damage_is_found(own: Path, library: Library) -> None:
    library.add([own])
    victim = next((library.folder / "shards").rglob("local.values.bin"))
    victim.write_bytes(victim.read_bytes()[:-1000])
    assert any("holds" in problem and "local.values" in problem for problem in library.verify().problems)


@pytest.mark.parametrize("processes", [1, 2])
def test_interrupting_keeps_what_was_done(
    films: RenderedWorld, whole: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setattr(decoding, "_LARGE", -1)
    lib = Library.create(tmp_path / "stopped", encoder="plain", rate=RATE)
    seen: set[Path] = set()

    def stop(now: object) -> None:
        seen.add(now.path)  # type: ignore[attr-defined]
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lib.add([films.folder], progress=stop, processes=processes)
    assert len(lib.videos()) == 4
    assert list((lib.folder / "claims").iterdir()) == []
    assert len(lib.add([films.folder]).added) == len(films.videos) - 4
    same(lib, whole)
