"""Errors as problem+json (RFC 9457): a sentence and a remedy, without paths of this machine."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from prvr.errors import UserError

_log = logging.getLogger("prvr.server")
_TITLES = {
    400: "Bad request", 401: "Token needed", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Too slow", 409: "Conflict", 410: "Gone", 411: "Length required", 413: "Too large", 414: "Address too long",
    415: "Wrong content type", 416: "Range not satisfiable", 421: "Wrong host", 422: "Not understood",
    429: "Too many", 431: "Headers too long",
    500: "Internal error", 503: "Busy",
}  # fmt: skip
_PATH = re.compile(r"(?<![\w.:/])/[^\s/]|\b[A-Za-z]:\\")  # the beginning of an absolute path
_REMEDIES = {
    404: "see /v1/docs for all addresses",
    405: "see /v1/docs for the methods of this address",
    415: "send JSON with Content-Type: application/json",
}


class ProblemDocument(BaseModel):
    """What went wrong (application/problem+json)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not found",
                    "status": 404,
                    "detail": "there is no video 12 in the library",
                    "remedy": "list what there is: GET /v1/videos",
                }
            ]
        }
    )
    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="what was found")
    remedy: str = Field(description="what to do")


class Problem(Exception):
    """An error answer: its status, what was found, and what to do."""

    def __init__(self, status: int, detail: str, remedy: str, headers: dict[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.remedy, self.headers = status, detail, remedy, headers or {}

    def response(self) -> JSONResponse:
        document = ProblemDocument(
            title=_TITLES.get(self.status, "Error"), status=self.status, detail=self.detail, remedy=self.remedy
        )
        return JSONResponse(
            document.model_dump(), self.status, headers=self.headers, media_type="application/problem+json"
        )


def without_paths(text: str, private: Iterable[Path]) -> str | None:
    """A message in which names stand for the given paths; None where it still holds a path of this machine.

    >>> without_paths("/srv/films/a.mp4: it is empty", [Path("/srv/films/a.mp4")])
    'a.mp4: it is empty'
    >>> without_paths("/etc/secret: it is empty", [Path("/srv/films/a.mp4")])
    """
    for path in sorted({*private}, key=lambda each: -len(str(each))):
        text = text.replace(str(path), path.name)
    return None if _PATH.search(text) else text


def from_user_error(
    error: UserError, library: Path, status: int = 409, remedy: str = "the server's own log says more"
) -> Problem:
    """What an error of the library becomes for a client; the whole text goes to the server's log."""
    _log.warning("%s", error)
    detail = without_paths(str(error), (library, library.resolve()))
    return Problem(status, detail or "the library cannot do this", remedy)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """A route's errors, for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {"description": _TITLES[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }


def install(app: FastAPI, library: Path) -> None:
    """Turn every error into a problem."""

    @app.exception_handler(Problem)
    async def _problem(request: Request, problem: Problem) -> JSONResponse:
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])  # first: body, query or path
        detail = f"{place}: {first['msg']}" if place else str(first["msg"])
        return Problem(422, detail, "correct it; /v1/docs shows what is expected, with examples").response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405 and (allowed := _allowed(request)):
            headers["Allow"] = ", ".join(sorted(allowed))
        remedy = _REMEDIES.get(error.status_code, "see /v1/docs for what is expected")
        return Problem(error.status_code, str(error.detail), remedy, headers).response()

    @app.exception_handler(UserError)
    async def _user_error(request: Request, error: UserError) -> JSONResponse:
        return from_user_error(error, library).response()

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        return unexpected().response()


def _allowed(request: Request) -> set[str]:
    """All methods of an address; the framework names only those of the first matching route."""
    return {
        method.upper()
        for path, methods in request.app.openapi()["paths"].items()
        for method in methods
        if compile_path(path)[0].match(request.scope["path"])
    }


def unexpected() -> Problem:
    return Problem(500, "something failed inside the server", "try again; the server's own log says what it was")
