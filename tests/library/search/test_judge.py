"""How well a library answers sentences whose moments are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prvr.library import Library, LibraryError, judge, rendered_queries
from prvr.worlds import RenderedWorld


def test_ranks_are_those_of_a_search(whole: Library, films: RenderedWorld) -> None:
    known = rendered_queries(films)[:5]
    found = judge(whole, known)
    for query, rank in zip(known, found.ranks.tolist(), strict=True):
        order = [hit.video.path for hit in whole.search(query.sentence, limit=100)]
        assert rank == 1 + min(order.index(path) for path in query.correct)


def test_a_video_that_is_not_there_is_named(library: Library, own: Path, films: RenderedWorld) -> None:
    library.add([own])
    with pytest.raises(LibraryError, match=r"does not hold .*mp4.*which the known sentences are about"):
        judge(library, rendered_queries(films))
    (query,) = rendered_queries(films)[:1]
    library.add([query.video])
    with pytest.raises(LibraryError, match="not among its correct videos"):
        judge(library, [replace(query, correct=frozenset())])
