"""SIGTERM, with which services and batch systems stop a process, ends an add as Ctrl-C does."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.worlds import RenderedWorld
from tests.faults.conftest import RATE
from tests.faults.helpers import TIMEOUT, finish, start
from tests.library.store.test_faults import same


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_adding(number: signal.Signals, code: int, films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    words = ("library", "add", films.folder, "--library", lib.folder)
    process = start(*words)
    ends = time.monotonic() + TIMEOUT
    while not lib.videos() and time.monotonic() < ends:
        time.sleep(0.01)
    process.send_signal(number)
    said, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code, said
    assert "stopped; finished videos are kept" in said
    assert "Traceback" not in said
    assert 0 < len(lib.videos()) < len(films.videos)
    assert lib.verify().ok
    finish(start(*words))
    same(lib, whole)
