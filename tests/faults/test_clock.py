"""A clock that jumps: nothing is ordered, claimed or ended by the time of day."""

from __future__ import annotations

import ast
import itertools
import time
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.worlds import RenderedWorld
from tests.faults.conftest import RATE
from tests.library.store.test_faults import same

SOURCE = Path(__file__).parents[2] / "src" / "prvr"
# Where the time of day is read at all: to be shown to people, to tell how old a leftover file is, and to end sessions.
SHOWN = {
    "library/activity.py": "since",
    "library/store/catalogue.py": "added",
    "library/store/claims.py": "st_mtime",
    "library/store/settings.py": "_last_change",
    "server/access.py": "until",
    "server/jobs.py": "created",
}


def test_a_library_made_while_the_clock_jumps(
    films: RenderedWorld, whole: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = itertools.cycle([4e9, 0.0, 1.7e9, -5.0, 253402300800.0])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    paths = sorted(films.videos.values())
    lib.add(paths[:5])
    again = Library.open(lib.folder)
    assert again.add(paths[:5]).unchanged == paths[:5]
    again.remove(paths[:2])
    assert len(again.add([films.folder]).added) == len(paths) - 3
    same(again, whole)


def test_the_time_of_day_decides_nothing() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "datetime.now", "time.time_ns"):
                found.add(str(path.relative_to(SOURCE)))
    assert found == set(SHOWN)
