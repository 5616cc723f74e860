"""Health, a summary of the library, a session for the page, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from prvr import __version__
from prvr.server.guard import COOKIE, same
from prvr.server.models import Health, LibraryModel, SessionRequest
from prvr.server.problems import Problem, documented
from prvr.server.state import Shared

router = APIRouter(tags=["service"])
metrics_router = APIRouter(tags=["service"])


@router.get("/health")
async def health() -> Health:
    """Whether the server is alive. Needs no token."""
    return Health(version=__version__)


@router.get("/library")
def library(state: Shared) -> LibraryModel:
    """What the library holds."""
    videos, places = state.library.videos(), state.places()
    good = [video for video in videos if video.state == "ok"]
    return LibraryModel(
        videos=len(good),
        failed=len(videos) - len(good),
        seconds=sum(video.duration or 0.0 for video in good),
        encoder=state.library.settings.encoder,
        folders=sorted({places.name(video) for video in good}),
        tags=sorted({tag for video in good for tag in video.tags}),
        roots=list(state.roots.by_name),
    )


@router.post("/session", status_code=204, responses=documented(400, 401, 422))
async def session(asked: SessionRequest, state: Shared, response: Response) -> None:
    """Exchange the token for a cookie: a browser cannot send a header when it loads pictures and videos."""
    token = state.options.token
    if token is not None and not same(asked.token, token):
        raise Problem(401, "this is not the token", "use the token that the server was started with")
    if token is not None:
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")


@metrics_router.get("/metrics", response_class=PlainTextResponse)
def metrics(state: Shared) -> PlainTextResponse:
    """Counters for Prometheus."""
    jobs = list(state.jobs.all.values())
    gauges = {
        "prvr_videos": ("videos that can be searched", float(len(state.library.snapshot().videos))),
        "prvr_searches_waiting": ("searches in the queue", float(state.batcher.waiting)),
        "prvr_jobs_open": ("jobs queued or running", float(sum(j.state in ("queued", "running") for j in jobs))),
    }
    return PlainTextResponse(state.metrics.text(gauges), media_type="text/plain; version=0.0.4")
