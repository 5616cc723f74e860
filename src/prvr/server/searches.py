"""Answer a batch of searches: from requests to the bytes of the responses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from prvr.library import Library
from prvr.server.models import VideoDescriber
from prvr.server.search_models import SearchBody, SearchResponse


class BatchSearcher:
    """Answers several searches at once. Runs on the search thread, so that it does not delay other requests."""

    def __init__(self, library: Library):
        self.library = library
        self._describer: tuple[Hashable, VideoDescriber] | None = None

    def __call__(self, requests: Sequence[SearchBody]) -> list[bytes]:
        """The responses as JSON, in the order of the requests. Equal requests are searched once."""
        describer = self.describer()
        distinct = {request.model_dump_json(): request for request in requests}
        results = self.library.search_many([request.to_request(describer.folders) for request in distinct.values()])
        responses = {
            key: SearchResponse.of(result, request, describer).model_dump_json().encode()
            for (key, request), result in zip(distinct.items(), results, strict=True)
        }
        return [responses[request.model_dump_json()] for request in requests]

    def describer(self) -> VideoDescriber:
        """Describes the library's videos for clients. A new one is made when the library has changed."""
        generation = self.library.snapshot().generation
        current = self._describer
        if current is None or current[0] != generation:
            current = self._describer = (generation, VideoDescriber(self.library.summary().ends))
        return current[1]
