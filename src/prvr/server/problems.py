"""Errors as problem+json (RFC 9457): what went wrong and what to do, without paths of this machine."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from prvr.errors import UserError, printable
from prvr.lake import StoreAway


class _PrintableRecords(logging.Filter):
    """Escapes control characters, which names of files may hold, in what the server logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage(), one_line=True), ()
        if record.exc_info:
            record.exc_text = printable("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return True


_log = logging.getLogger("prvr.server")
_log.addFilter(_PrintableRecords())
_TITLES = {
    400: "Bad request", 401: "Token needed", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Too slow", 409: "Conflict", 410: "Gone", 411: "Length required", 413: "Too large", 414: "Address too long",
    415: "Wrong content type", 416: "Range not satisfiable", 421: "Wrong host", 422: "Not understood",
    429: "Too many", 431: "Headers too long",
    500: "Internal error", 503: "Not available now",
}  # fmt: skip
_PATH = re.compile(r"(?<![\w.:/])/[^\s/]|\b[A-Za-z]:\\|\b(s3|gs|az)://")  # the start of an absolute path
_REMEDIES = {
    404: "See /v1/docs for all addresses.",
    405: "See /v1/docs for the methods of this address.",
    415: "Send JSON with Content-Type: application/json.",
}


class ProblemDocument(BaseModel):
    """An error, as application/problem+json."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not found",
                    "status": 404,
                    "detail": "There is no video 12 in the library.",
                    "remedy": "List the videos with GET /v1/videos.",
                }
            ]
        }
    )
    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="what went wrong")
    remedy: str = Field(description="what to do")


class Problem(Exception):
    """An error response: status, what went wrong, and what to do."""

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


def as_sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop.

    >>> as_sentence("there is no such video"), as_sentence("Try again.")
    ('There is no such video.', 'Try again.')
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def without_paths(text: str, private: Iterable[str | PurePath]) -> str | None:
    """Shorten the given paths in a message to their names. None if the message still holds an absolute path.

    >>> without_paths("/srv/films/a.mp4: it is empty", [Path("/srv/films/a.mp4")])
    'a.mp4: it is empty'
    >>> without_paths("/etc/secret: it is empty", [Path("/srv/films/a.mp4")])
    """
    for path in sorted({*map(str, private)}, key=lambda path: -len(path)):
        text = text.replace(path, Path(path).name)
    return None if _PATH.search(text) else text


def from_user_error(
    error: UserError, library: str, status: int = 409, remedy: str = "The server's log says more."
) -> Problem:
    """Turn an error of the library into a response. The full message goes to the server's log."""
    _log.warning("%s", error)
    if isinstance(error, StoreAway):
        away = "The storage of the library does not answer."
        return Problem(503, away, "Try again in a few seconds.", {"Retry-After": "5"})
    detail = without_paths(as_sentence(str(error)), (library, Path(library).resolve()))
    return Problem(status, detail or "The library cannot do this.", remedy)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {"description": _TITLES[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }


def add_error_handlers(app: FastAPI, library: str) -> None:
    """Answer every error with problem+json."""

    @app.exception_handler(Problem)
    async def _problem(request: Request, problem: Problem) -> JSONResponse:
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:])  # loc[0] is body, query or path
        message = str(first["msg"]).removeprefix("Value error, ")
        detail = f"{field}: {message.rstrip('.')}." if field else as_sentence(message)
        return Problem(422, detail, "See /v1/docs for what is expected, with examples.").response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405 and (allowed := _allowed(request)):
            headers["Allow"] = ", ".join(sorted(allowed))
        remedy = _REMEDIES.get(error.status_code, "See /v1/docs for what is expected.")
        return Problem(error.status_code, as_sentence(str(error.detail)), remedy, headers).response()

    @app.exception_handler(UserError)
    async def _user_error(request: Request, error: UserError) -> JSONResponse:
        return from_user_error(error, library).response()

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        return unexpected().response()


def _allowed(request: Request) -> set[str]:
    """All methods of an address. Starlette names only those of the first matching route."""
    return {
        method.upper()
        for path, methods in request.app.openapi()["paths"].items()
        for method in methods
        if compile_path(path)[0].match(request.scope["path"])
    }


def unexpected() -> Problem:
    """The response to an error in the server itself; it tells nothing about the cause."""
    return Problem(500, "Something failed inside the server.", "Try again. The server's log says what it was.")
