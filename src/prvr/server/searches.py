"""Searches of a pass, from what was asked to the bytes of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prvr.library import Library, SearchRequest, SearchResult
from prvr.server.roots import Places
from prvr.server.search_models import SearchBody, SearchResponse


class Searcher(Protocol):
    """A library, or somebody who asks the shards of one."""

    def search_many(self, requests: Sequence[SearchRequest]) -> list[SearchResult]: ...


class Searches:
    """Answers several at once. Runs on the search thread: whoever waits for a network is not held up."""

    def __init__(self, library: Library, searcher: Searcher | None = None):
        self.library, self.searcher = library, searcher or library
        self._places: tuple[int, Places] | None = None

    def __call__(self, asked: Sequence[SearchBody]) -> list[bytes]:
        places = self.places()
        unlike = {each.model_dump_json(): each for each in asked}  # the same search is made once
        found = self.searcher.search_many([each.to_request(places) for each in unlike.values()])
        answers = {
            key: SearchResponse.of(result, each, places).model_dump_json().encode()
            for (key, each), result in zip(unlike.items(), found, strict=True)
        }
        return [answers[each.model_dump_json()] for each in asked]

    def places(self) -> Places:
        """Names of folders, made anew when the library has changed."""
        now = self.library.snapshot().generation
        known = self._places
        if known is None or known[0] != now:
            known = self._places = (now, Places(self.library.videos()))
        return known[1]
