"""The web application: routes, errors, access checks and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse
from starlette.exceptions import HTTPException

from prvr import __version__
from prvr.library import Library
from prvr.server import (
    activity_routes,
    clip_routes,
    export_routes,
    job_routes,
    search_routes,
    service_routes,
    video_routes,
)
from prvr.server.guard import GUARD_STATUSES, Guard
from prvr.server.options import ServerOptions
from prvr.server.problems import ProblemDocument, add_error_handlers, problem_responses
from prvr.server.state import ServerState

PAGE = Path(__file__).parent / "page"
# Read once: only files in this table are served.
ASSETS = {path.name: path for path in PAGE.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")}
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def create_app(library: Library, options: ServerOptions | None = None) -> FastAPI:
    """Build the web application that serves a library.

    Args:
        library: the library that is searched, shown and added to.
        options: who may connect, and what they may do.
    """
    options = options or ServerOptions()
    state = ServerState.of(library, options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state.jobs.start()
        try:
            yield
        finally:
            await state.jobs.close()
            await state.batcher.close()
            await state.thumbnails.close()
            await state.pictures.close()
            await state.clips.close()
            await state.exports.close()

    app = FastAPI(
        title="prvr",
        version=__version__,
        summary="Find the moment in a video library that a sentence describes, and see why.",
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # FastAPI's page loads scripts from another site; _add_page adds our own
        redoc_url=None,
    )
    app.state.prvr = state
    for module in (
        search_routes,
        video_routes,
        clip_routes,
        export_routes,
        job_routes,
        activity_routes,
        service_routes,
    ):
        app.include_router(module.router, prefix="/v1")
    app.include_router(service_routes.metrics_router)
    add_error_handlers(app, library.address)
    _add_page(app)
    _add_problem_schema(app)
    app.add_middleware(Guard, options=options, metrics=state.metrics, doorkeeper=state.doorkeeper)
    return app


def _add_page(app: FastAPI) -> None:
    """Add the routes of the page, its files and the documentation of the API."""

    def asset(name: str) -> FileResponse:
        if name not in ASSETS:
            raise HTTPException(404, "There is no such page.")
        return FileResponse(
            ASSETS[name], media_type=_MEDIA_TYPES[ASSETS[name].suffix], headers={"Cache-Control": "no-cache"}
        )

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return asset("index.html")

    @app.get("/v1/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        from prvr.server.documentation import documentation_page

        return HTMLResponse(documentation_page(app.openapi()))

    @app.get("/page/{name}", include_in_schema=False)
    async def page_asset(name: str) -> FileResponse:
        return asset(name)


def _add_problem_schema(app: FastAPI) -> None:
    """Replace FastAPI's error schemas in the OpenAPI document by ``ProblemDocument``, and add the guard's errors."""
    build_schema = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = build_schema()
            schemas = schema["components"]["schemas"]
            schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for methods in schema["paths"].values():
                for operation in methods.values():
                    operation["responses"].update(
                        {str(status): response for status, response in problem_responses(*GUARD_STATUSES).items()}
                    )
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
