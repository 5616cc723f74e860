"""Routes for health, a summary of the library, sessions of the page, and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from prvr import __version__
from prvr.library import library_limits
from prvr.server.guard import COOKIE, equals_token
from prvr.server.models import Health, LibraryModel, SessionRequest
from prvr.server.problems import Problem, problem_responses
from prvr.server.state import Shared

router = APIRouter(tags=["service"])
metrics_router = APIRouter(tags=["service"])


@router.get("/health")
async def health() -> Health:
    """Check that the server is alive. Needs no token."""
    return Health(version=__version__)


@router.get("/library")
def library(state: Shared) -> LibraryModel:
    """Summarise the library: its size, and the values that filters can take."""
    videos, folders = state.library.videos(), state.describer().folders
    searchable = [video for video in videos if video.state == "ok"]
    return LibraryModel(
        videos=len(searchable),
        failed=len(videos) - len(searchable),
        seconds=sum(video.duration or 0.0 for video in searchable),
        encoder=state.library.settings.encoder,
        limits=library_limits(state.library.record),
        folders=sorted({folders.name(video.path) for video in searchable}),
        tags=sorted({tag for video in searchable for tag in video.tags}),
        roots=list(state.roots.by_name),
    )


@router.post("/session", status_code=204, responses=problem_responses(400, 401, 422))
async def session(request: SessionRequest, state: Shared, response: Response) -> None:
    """Exchange the token for a cookie. The page needs one: browsers load pictures and videos without extra headers."""
    token = state.options.token
    if token is not None and not equals_token(request.token, token):
        raise Problem(401, "This is not the token of the server.", "Use the token that the server was started with.")
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
