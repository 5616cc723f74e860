"""Whether two libraries, or two results, are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from prvr.library import Filters, Library, SearchRequest, SearchResult

SENTENCES = ("a red square moves to the left", "a green circle over sand", "something blue falls", "a yellow star")
OPTIONS: tuple[dict[str, Any], ...] = (  # of a ``SearchRequest``
    {"limit": 100},
    {"limit": 3, "offset": 2},
    {"limit": 5, "group_by": "moment"},
    {"limit": 100, "group_by": "moment"},
    {"limit": 4, "min_confidence": 0.3},
    {"limit": 4, "trace": False},
    {"limit": 10, "filters": Filters(max_duration=6.5)},
    {"limit": 10, "filters": Filters(tags=("no such tag",))},
)


def requests(queries: Sequence[str] = SENTENCES, **options: Any) -> list[SearchRequest]:
    """One request for each query, all with the same options; by default a page that holds every video."""
    return [SearchRequest(query, **{"limit": 100, **options}) for query in queries]


def content(result: SearchResult) -> dict[str, Any]:
    """All of a result but the time it took."""
    return {name: value for name, value in result.to_dict().items() if name != "seconds"}


def same_answers(found: list[SearchResult], expected: list[SearchResult]) -> None:
    """The same hits in the same order, with moments, confidence, ranks, evidence and messages."""
    assert [content(result) for result in found] == [content(result) for result in expected]
    for one, other in zip(found, expected, strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)


def same_library(library: Library, whole: Library) -> None:
    """The same videos under the same numbers, and byte for byte the same arrays. Nothing is left over."""
    facts = [[{**asdict(video), "added": 0} for video in each.videos()] for each in (library, whole)]
    assert facts[0] == facts[1]
    assert arrays(library.folder) == arrays(whole.folder)
    assert library.verify().ok
    expected = {"library.json", "catalogue.sqlite", "shards", "claims"}
    assert not {path.name for path in library.folder.iterdir()} - expected


def arrays(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "shards").rglob("*.bin")}
