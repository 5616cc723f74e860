"""Answer the searches of one pass: from requests to the bytes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prvr.library import Library, SearchRequest, SearchResult
from prvr.server.roots import Places
from prvr.server.search_models import SearchBody, SearchResponse


class Searcher(Protocol):
    """What answers searches: a library, or a cluster that holds one."""

    def search_many(self, requests: Sequence[SearchRequest]) -> list[SearchResult]: ...


class Searches:
    """Answers several searches at once. Runs on the search thread, so that it does not delay other requests."""

    def __init__(self, library: Library, searcher: Searcher | None = None):
        self.library, self.searcher = library, searcher or library
        self._places: tuple[int, Places] | None = None

    def __call__(self, asked: Sequence[SearchBody]) -> list[bytes]:
        places = self.places()
        distinct = {each.model_dump_json(): each for each in asked}  # equal searches are made once
        found = self.searcher.search_many([each.to_request(places) for each in distinct.values()])
        answers = {
            key: SearchResponse.of(result, each, places).model_dump_json().encode()
            for (key, each), result in zip(distinct.items(), found, strict=True)
        }
        return [answers[each.model_dump_json()] for each in asked]

    def places(self) -> Places:
        """Folders of the library's videos, computed again when the library has changed."""
        now = self.library.snapshot().generation
        known = self._places
        if known is None or known[0] != now:
            known = self._places = (now, Places(self.library.videos()))
        return known[1]
