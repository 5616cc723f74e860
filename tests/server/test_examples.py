"""Example searches are looked for by one caller at a time; the others do not wait long."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.server import examples
from prvr.server.examples import Examples


def test_others_get_what_is_known_while_one_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_PATIENCE", 0.01)
    library = Library.create(tmp_path / "library", encoder="plain")
    looking, go_on = threading.Event(), threading.Event()

    def find(most: int) -> list[str]:
        looking.set()
        assert go_on.wait(60)
        return ["a red square"]

    monkeypatch.setattr(library, "examples", find)
    kept = Examples(library)
    thread = threading.Thread(target=kept.get)
    thread.start()
    try:
        assert looking.wait(60)
        assert kept.get() == []
    finally:
        go_on.set()
        thread.join(60)
    assert kept.get() == ["a red square"]
