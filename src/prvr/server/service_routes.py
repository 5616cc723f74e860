"""Routes for health, a summary of the library, sessions of the page, and metrics."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse

from prvr import __version__
from prvr.library import library_limits
from prvr.media import BucketPath
from prvr.server.access import COOKIE, SESSION_SECONDS, access_of
from prvr.server.guard import client_address
from prvr.server.models import (
    ExampleList,
    Health,
    LibraryFolderList,
    LibraryFolderModel,
    LibraryModel,
    RelativePath,
    SessionRequest,
)
from prvr.server.problems import Problem, problem_responses
from prvr.server.state import Shared

router = APIRouter(tags=["service"])
metrics_router = APIRouter(tags=["service"])


@router.get("/health")
async def health(state: Shared) -> Health:
    """Check that the server is alive, and that its library can be read. Needs no token."""
    damage = await asyncio.to_thread(state.library.damage)  # searches do not keep it waiting
    return Health(status="damaged" if damage else "ok", message=damage, version=__version__)


@router.get("/library")
def library(request: Request, state: Shared) -> LibraryModel:
    """Summarise the library: its size, and the values that filters can take."""
    summary, folders = state.library.summary(), state.lister().folders
    changes = access_of(request) == "all"
    return LibraryModel(
        videos=summary.videos,
        failed=summary.failed,
        seconds=summary.seconds,
        encoder=state.library.settings.encoder,
        limits=library_limits(state.library.record),
        folders=sorted({*map(folders.folder_name, summary.folders)}),
        tags=list(summary.tags),
        writable=changes and state.library.store.writable,
        roots=list(state.roots.by_name) if changes else [],
    )


@router.get("/library/folders", responses=problem_responses(422))
def library_folders(
    state: Shared,
    folder: Annotated[RelativePath, Query(description="a folder of the library; '' is the one that holds all")] = "",
) -> LibraryFolderList:
    """List the folders directly in a folder of the library, to browse it."""
    folders = state.lister().folders
    inner = state.library.folders(folders.path(folder))
    prefix = f"{folder.rstrip('/')}/" if folder else ""
    listed = [LibraryFolderModel(name=name, folder=prefix + name, videos=n) for name, n in inner.items()]
    if not folder and not isinstance(folders.base, BucketPath):  # some are on this machine, others in buckets
        buckets = state.library.summary().buckets
        listed += [LibraryFolderModel(name=name, folder=name, videos=n) for name, n in buckets.items()]
    return LibraryFolderList(folders=listed)


@router.get("/library/examples")
def library_examples(state: Shared) -> ExampleList:
    """A few searches that this library answers well. The first time takes as long as some searches."""
    return ExampleList(examples=state.examples.get())


@router.post("/session", status_code=204, responses=problem_responses(400, 401, 422))
async def session(body: SessionRequest, request: Request, state: Shared, response: Response) -> None:
    """Exchange a token for a cookie. The page needs one: browsers load pictures and videos without extra headers.

    The cookie holds a signed session of seven days, and not the token."""
    access = state.doorkeeper.access_with(body.token, client_address(request.scope))
    if access is None:
        raise Problem(401, "This is not the token of the server.", "Use the token that the server was started with.")
    value = state.doorkeeper.session(access)
    if value is not None:
        secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE, value, max_age=SESSION_SECONDS, httponly=True, samesite="strict", path="/", secure=secure
        )


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
