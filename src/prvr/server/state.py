"""The objects that all routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from prvr.library import Library, Video
from prvr.server.access import Doorkeeper
from prvr.server.batcher import Batcher
from prvr.server.clips import Clips, Exports
from prvr.server.examples import Examples
from prvr.server.jobs import Jobs
from prvr.server.metrics import Metrics
from prvr.server.models import VideoDescriber
from prvr.server.options import ServerOptions
from prvr.server.pictures import Pictures
from prvr.server.problems import Problem
from prvr.server.roots import Roots
from prvr.server.search_models import SearchBody
from prvr.server.searches import BatchSearcher
from prvr.server.thumbnails import Thumbnails


@dataclass(frozen=True)
class ServerState:
    """A library and everything that serves it."""

    library: Library
    options: ServerOptions
    doorkeeper: Doorkeeper
    roots: Roots
    metrics: Metrics
    searcher: BatchSearcher
    batcher: Batcher[SearchBody, bytes]
    jobs: Jobs
    thumbnails: Thumbnails
    pictures: Pictures
    examples: Examples
    clips: Clips
    exports: Exports

    @staticmethod
    def of(library: Library, options: ServerOptions) -> ServerState:
        metrics, searcher, roots = Metrics(), BatchSearcher(library), Roots(options.roots)
        return ServerState(
            library,
            options,
            Doorkeeper(options),
            roots,
            metrics,
            searcher,
            Batcher(searcher, metrics, options.batch, options.waiting),
            Jobs(library.address, roots),
            Thumbnails(),
            Pictures(),
            Examples(library),
            Clips(),
            Exports(),
        )

    def describer(self) -> VideoDescriber:
        """Describes videos that a search has found. ``lister`` is cheaper where nothing is searched."""
        return self.searcher.describer()

    def lister(self) -> VideoDescriber:
        """Describes the library's videos and folders as they are now, without opening its vectors."""
        return VideoDescriber(self.library.summary().ends)

    def video(self, number: int) -> Video:
        """The video with this number. Clients name files by number only, never by path."""
        video = self.library.video(number)
        if video is None:
            raise Problem(404, f"There is no video {number} in the library.", "List the videos with GET /v1/videos.")
        return video


async def _state(request: Request) -> ServerState:  # async: FastAPI runs a plain function in another thread
    state = request.app.state.prvr
    assert isinstance(state, ServerState)
    return state


Shared = Annotated[ServerState, Depends(_state)]
