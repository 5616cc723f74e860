"""A power cut at any moment: what was acknowledged is there, and nothing else is half there."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from prvr.library import Library
from tests.library.store.power import record

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")

_WORK = """
import json, os, sys
from pathlib import Path
from prvr.library import Library

def say(lib):
    names = sorted(video.path.name for video in lib.videos())
    os.write(1, (json.dumps([names, lib.settings.rate]) + chr(10)).encode())

one, two, three, four = (Path(word) for word in sys.argv[2:])
lib = Library.create(Path(sys.argv[1]) / "library", encoder="plain", rate=1.0)
say(lib)
for step in (lambda: lib.add([one]), lambda: lib.add([two]), lambda: lib.remove([one]), lambda: lib.add([three, four]),
             lambda: lib.reindex(rate=2.0), lambda: lib.remove([two, three])):
    step()
    say(lib)
"""
_JOURNAL = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/one.sqlite", isolation_level=None)
db.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
db.execute(f"PRAGMA synchronous = {sys.argv[3]}")
db.execute("CREATE TABLE numbers (number)")
db.execute("INSERT INTO numbers VALUES (1)")
os.write(1, b"stored")
"""


@pytest.mark.parametrize(
    ("journal", "synchronous", "kept"),
    [("DELETE", "FULL", False), ("DELETE", "EXTRA", True), ("WAL", "FULL", True), ("WAL", "NORMAL", False)],
)
def test_the_simulated_disk_knows_what_sqlite_promises(
    journal: str, synchronous: str, kept: bool, tmp_path: Path
) -> None:
    """https://www.sqlite.org/pragma.html#pragma_synchronous says which settings are durable."""
    for disk, said in record(_JOURNAL, tmp_path / "disk", journal, synchronous):
        if said is not None:
            disk.cut(tmp_path / "after", seed=1, share=0.0)
    try:
        found = sqlite3.connect(tmp_path / "after" / "one.sqlite").execute("SELECT number FROM numbers").fetchall()
    except sqlite3.OperationalError:  # not even the table
        found = []
    assert found == ([(1,)] if kept else [])


def test_what_was_acknowledged_survives_a_power_cut(own: Path, tmp_path: Path) -> None:
    films = sorted(own.iterdir())[:4]
    chance, often = (
        random.Random(f"7 {os.environ.get('PRVR_SEED', '')}"),
        0.02 * float(os.environ.get("PRVR_CUTS", "1")),
    )
    before = now = None  # what was acknowledged last
    since: list[Path] = []  # cuts between two acknowledgements
    number = 0
    for disk, said in record(_WORK, tmp_path / "disk", *films):
        sure = said is not None
        if not sure and (before is None or chance.random() > often):
            continue
        now = json.loads(said) if said is not None else now
        for share in (0.0, 0.5, 1.0) if sure else (chance.choice((0.0, 0.3, 0.7)),):
            place = tmp_path / f"cut-{number}"
            disk.cut(place, seed=number, share=share)
            number += 1
            if sure:
                assert [*_state(place)] == now, f"share {share} after {now}"
            else:
                since.append(place)
        if sure:
            for place in since:
                (names, rate), (old, old_rate), (new, new_rate) = _state(place), before, now
                assert {*old} & {*new} <= {*names} <= {*old} | {*new}, f"between {before} and {now}"
                assert rate in (old_rate, new_rate)
            before, since = now, []


def _state(place: Path) -> tuple[list[str], float]:
    """Names of the videos in a library that was found after a cut, and its rate. Everything in it is whole."""
    lib = Library.open(place / "library")
    found = lib.verify()
    assert found.ok, found.problems
    names = sorted(video.path.name for video in lib.videos())
    assert lib.search("a red square", limit=50).total in (len(names), 0)
    shutil.rmtree(place)
    return names, lib.settings.rate
