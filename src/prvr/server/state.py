"""What the routes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from prvr.library import Library, Video
from prvr.server.batching import Batcher, Searcher
from prvr.server.jobs import Jobs
from prvr.server.metrics import Metrics
from prvr.server.options import ServerOptions
from prvr.server.problems import Problem
from prvr.server.roots import Places, Roots
from prvr.server.stills import Stills


@dataclass(frozen=True)
class State:
    """One library, served."""

    library: Library
    options: ServerOptions
    roots: Roots
    metrics: Metrics
    batcher: Batcher
    jobs: Jobs
    stills: Stills
    _places: dict[int, Places] = field(default_factory=dict)

    @staticmethod
    def of(library: Library, options: ServerOptions, searcher: Searcher | None = None) -> State:
        metrics = Metrics()
        return State(
            library,
            options,
            Roots(options.roots),
            metrics,
            Batcher(searcher or library, metrics, options.batch, options.waiting),
            Jobs(library.folder),
            Stills(),
        )

    def places(self) -> Places:
        """Names of folders, made anew when the library has changed."""
        now = self.library.snapshot().generation
        if now not in self._places:
            self._places.clear()
            self._places[now] = Places(self.library.videos())
        return self._places[now]

    def video(self, number: int) -> Video:
        """Files are named by number alone; a number that is not in the catalogue is no file."""
        found = self.library.snapshot().videos.get(number)
        found = found or next((video for video in self.library.videos() if video.id == number), None)
        if found is None:
            raise Problem(404, f"there is no video {number} in the library", "list what there is: GET /v1/videos")
        return found


def _state(request: Request) -> State:
    state = request.app.state.prvr
    assert isinstance(state, State)
    return state


Shared = Annotated[State, Depends(_state)]
