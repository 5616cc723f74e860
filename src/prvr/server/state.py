"""What the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from prvr.library import Library, Video
from prvr.server.batching import Batcher
from prvr.server.jobs import Jobs
from prvr.server.metrics import Metrics
from prvr.server.options import ServerOptions
from prvr.server.problems import Problem
from prvr.server.roots import Places, Roots
from prvr.server.search_models import SearchBody
from prvr.server.searches import Searcher, Searches
from prvr.server.thumbnails import Thumbnails


@dataclass(frozen=True)
class State:
    """What serves one library."""

    library: Library
    options: ServerOptions
    roots: Roots
    metrics: Metrics
    searches: Searches
    batcher: Batcher[SearchBody, bytes]
    jobs: Jobs
    thumbnails: Thumbnails

    @staticmethod
    def of(library: Library, options: ServerOptions, searcher: Searcher | None = None) -> State:
        metrics, searches = Metrics(), Searches(library, searcher)
        return State(
            library,
            options,
            Roots(options.roots),
            metrics,
            searches,
            Batcher(searches, metrics, options.batch, options.waiting),
            Jobs(library.folder),
            Thumbnails(),
        )

    def places(self) -> Places:
        """Folders of the library's videos, by the names that clients use."""
        return self.searches.places()

    def video(self, number: int) -> Video:
        """The video with this number. Clients name files by number only, never by path."""
        found = self.library.snapshot().videos.get(number)
        found = found or next((video for video in self.library.videos() if video.id == number), None)
        if found is None:
            raise Problem(404, f"there is no video {number} in the library", "list what there is: GET /v1/videos")
        return found


async def _state(request: Request) -> State:  # async: a plain function would take a trip through a thread
    state = request.app.state.prvr
    assert isinstance(state, State)
    return state


Shared = Annotated[State, Depends(_state)]
