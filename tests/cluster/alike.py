"""When two libraries, and two answers, are the same."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from prvr.library import Filters, Library, SearchOptions, SearchResult

SENTENCES = ("a red square moves to the left", "a green circle over sand", "something blue falls", "a yellow star")
OPTIONS = (
    SearchOptions(limit=100),
    SearchOptions(limit=3, offset=2),
    SearchOptions(limit=5, group_by="moment"),
    SearchOptions(limit=100, group_by="moment"),
    SearchOptions(limit=4, min_confidence=0.3),
    SearchOptions(limit=4, trace=False),
    SearchOptions(limit=10, filters=Filters(max_duration=6.5)),
    SearchOptions(limit=10, filters=Filters(tags=("nothing has it",))),
)


def rows(result: SearchResult) -> list[Any]:
    """What an answer says, without the time it took."""
    told = result.to_dict()
    return [{name: value for name, value in told.items() if name != "seconds"}]


def same_answers(found: list[SearchResult], expected: list[SearchResult]) -> None:
    """The same hits in the same order, with moments, confidence, ranks, evidence and messages."""
    assert [rows(each) for each in found] == [rows(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)


def same_library(lib: Library, whole: Library) -> None:
    """The same videos under the same numbers, and byte for byte the same arrays; nothing is left over."""
    facts = [[{**asdict(video), "added": 0} for video in each.videos()] for each in (lib, whole)]
    assert facts[0] == facts[1]
    assert arrays(lib.folder) == arrays(whole.folder)
    assert lib.verify().ok
    leftovers = {p.name for p in lib.folder.iterdir()} - {"library.json", "catalogue.sqlite", "shards", "claims"}
    assert not leftovers


def arrays(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "shards").rglob("*.bin")}
