"""Writing whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.files import settle, whole_folder, write_whole


def test_text_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "note"
    write_whole(path, "one")
    write_whole(path, "two")
    assert path.read_text("utf-8") == "two"
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
    settle(tmp_path)
    assert {p.name: (p / "file").read_text("utf-8") for p in tmp_path.iterdir()} == {
        "best": ".best.old",
        "last": "last",
    }
