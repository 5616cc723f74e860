"""What arrives over HTTP: bodies, cursors, whole requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from prvr.library import Library
from prvr.media.writer import write_video
from prvr.server import ServerOptions, create_app
from prvr.server.models import AddRequest, Cursor, read_cursor
from prvr.server.problems import Problem
from prvr.server.ranges import parse_range
from prvr.server.roots import LibraryFolders
from prvr.server.search_models import SearchBody
from tests.fuzz.target import Read, Target

_SEARCH = (
    b'{"query": "a red square", "group_by": "moment", "limit": 5, "cursor": "p10", "min_confidence": 0.5, "trace": '
    b'false, "filters": {"folder": "a/b", "after": "2024-05-31T18:00:00Z", "min_duration": 1.5, "tags": ["home"]}}'
)
_ADD = b'{"root": "films", "path": "holiday/2024", "tags": ["home"], "retry": false}'
_cursor = TypeAdapter(Cursor)


def _body(data: bytes) -> None:
    try:
        request = SearchBody.model_validate_json(data)
    except ValidationError:
        AddRequest.model_validate_json(data)
        return
    request.to_request(LibraryFolders([]))


def _read_cursor(data: bytes) -> None:
    assert 0 <= read_cursor(_cursor.validate_python(data.decode("utf-8", "surrogateescape"))) <= 99_999


def _range(data: bytes) -> None:
    try:
        found = parse_range(data.decode("latin-1"), 1000)
    except ValueError:  # nothing of the range exists
        return
    assert found is None or 0 <= found[0] <= found[1] < 1000


def _requests(scratch: Path) -> Read:
    """Whole requests to the app, without a network: never a 500, and never an exception."""
    lib = Library.create(scratch / "library", encoder="plain", rate=1.0)
    lib.add([write_video(scratch / "film.mp4", (np.full((48, 64, 3), 9 * i, np.uint8) for i in range(6)), fps=2)])
    app = create_app(lib, ServerOptions())
    loop = asyncio.new_event_loop()
    living = app.router.lifespan_context(app)
    loop.run_until_complete(living.__aenter__())

    def read(data: bytes, living: Any = living) -> None:  # which ends when nobody holds it
        head, _, body = data.partition(b"\n\n")
        first, *headers = head.split(b"\n")
        method, _, target = first.partition(b" ")
        status = loop.run_until_complete(_ask(app, method, target, headers, body))
        assert status is not None
        assert 200 <= status < 500 or status == 503, f"answered {status}"

    return read


async def _ask(app: Any, method: bytes, target: bytes, headers: list[bytes], body: bytes) -> int | None:
    path, _, query = target.partition(b"?")
    given = [tuple(part.strip() for part in line.split(b":", 1)) for line in headers if b":" in line]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1").upper(),
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", b"localhost"), *((name.lower(), value) for name, value in given)],
        "client": ("127.0.0.1", 50000),
        "server": ("localhost", 80),
    }
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    status = None

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    await app(scope, receive, send)
    return status


_JSON = b"content-type: application/json\norigin: http://localhost\n\n"
_REQUESTS = [
    b"POST /v1/search\n" + _JSON + _SEARCH,
    b"POST /v1/videos\n" + _JSON + _ADD,
    b"GET /v1/videos?status=ok&folder=a&tag=home&limit=50&cursor=p10\n\n",
    b'GET /v1/videos/1/media\nrange: bytes=0-99\nif-range: "abc"\n\n',
    b"GET /v1/videos/1/evidence?query=a+red+square&track=frames&trace=true\n\n",
    b"GET /v1/folders?root=films&path=a/b\n\n",
    b"GET /v1/jobs/1\n\n",
    b"POST /v1/session\n" + _JSON + b'{"token": "a-secret-of-16-or-more"}',
]

TARGETS = (
    Target("api-bodies", (ValidationError, Problem), [_SEARCH, _ADD], lambda scratch: _body),
    Target("cursors", (ValidationError,), [b"p0", b"p10", b"p99999"], lambda scratch: _read_cursor),
    Target("byte-ranges", (), [b"bytes=0-99", b"bytes=-5", b"bytes=5-"], lambda scratch: _range),
    Target("api-requests", (), _REQUESTS, _requests),
)
