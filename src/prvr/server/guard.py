"""Check every request (host, origin, token, sizes) before the app sees it, and add security headers to responses."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from contextlib import ExitStack

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prvr.server.access import Doorkeeper, may
from prvr.server.metrics import Metrics
from prvr.server.options import ServerOptions, is_loopback
from prvr.server.problems import Problem

_PUBLIC = {"/v1/health", "/v1/session"}
PROXIED = "prvr.proxied"  # in a request's scope: whether it comes from a trusted proxy
GUARD_STATUSES = (401, 403, 408, 413, 414, 421, 429, 431)
BODY_SECONDS = 20.0  # time for the body of a request to arrive
_LARGE_BODIES = 16  # bodies above the usual limit that may be in memory at the same time
_TURN_SECONDS = 10.0  # time that such a body may wait for its turn
_SEARCH, _EXPORT = "/v1/search", "/v1/export"
_METHODS_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
        b"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_FOREIGN_PAGE = "The request comes from a page of another site."
_API_HEADERS = (*_HEADERS, (b"cache-control", b"no-store"))


class Guard:
    """The outermost middleware: refuses bad requests and adds security headers to every response."""

    def __init__(self, app: ASGIApp, options: ServerOptions, metrics: Metrics, doorkeeper: Doorkeeper | None = None):
        self.app, self.options, self.metrics = app, options, metrics
        self.doorkeeper = doorkeeper or Doorkeeper(options)
        self._large = asyncio.Semaphore(_LARGE_BODIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        held = ExitStack()  # the turn of a large body, until the response begins

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                held.close()
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                added = _API_HEADERS if scope["path"].startswith("/v1/") else _HEADERS
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in present)]
            await send(message)

        try:
            self._check(scope)
            if scope["method"] in _METHODS_WITH_BODY:
                try:
                    async with asyncio.timeout(BODY_SECONDS):
                        receive = await self._read(receive, scope["path"], held)
                except TimeoutError:
                    raise Problem(408, "The body of the request did not arrive in time.", "Send it at once.") from None
            await self.app(scope, receive, send_with_headers)
        except Problem as problem:
            await problem.response()(scope, receive, send_with_headers)
        finally:
            held.close()
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(scope["method"], route, status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        options = self.options
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > options.max_url:
            raise Problem(414, f"The address is longer than {options.max_url} bytes.", "Make the query shorter.")
        if not scope["query_string"].isascii():  # Starlette fails on such bytes when it builds a URL
            raise Problem(400, "The address contains bytes that are not ASCII.", "Write them as %XX.")
        if sum(len(name) + len(value) for name, value in headers.raw) > options.max_head:
            raise Problem(431, f"The headers are longer than {options.max_head} bytes.", "Send fewer headers.")
        host = headers.get("host", "")
        local = is_loopback(options.host) and not scope.get(PROXIED)  # a proxy passes on the name that it has
        if local and not is_loopback(_name(host)):  # a foreign name that points to this machine
            raise Problem(421, "This server answers only under the name localhost.", "Open it as http://localhost.")
        method = scope["method"]
        if method in _METHODS_WITH_BODY:
            origin = headers.get("origin")
            if origin is not None and origin.split("://", 1)[-1] != host:
                raise Problem(403, _FOREIGN_PAGE, "Use the server's own page, or send no Origin header.")
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise Problem(403, _FOREIGN_PAGE, "Use the server's own page.")
        declared = headers.get("content-length", "0")
        path = scope["path"]
        if not declared.isdecimal() or int(declared) > self._most(path):
            raise self._too_large(path)
        if path.startswith(("/v1/", "/mcp")) or path == "/metrics":
            self._check_access(scope, headers)

    def _check_access(self, scope: Scope, headers: Headers) -> None:
        """Note in the scope what the sender may do, and refuse what it may not."""
        if scope["path"] in _PUBLIC:
            return
        access = self.doorkeeper.access(headers, client_address(scope))
        if access is None:
            raise Problem(
                401,
                "This server needs a token.",
                "Send the header Authorization: Bearer TOKEN, or enter the token on the page.",
                {"WWW-Authenticate": "Bearer"},
            )
        if not may(access, scope["method"], scope["path"]):
            raise Problem(403, "This token is for searching and watching only.", "Use the server's other token.")
        scope["prvr.access"] = access

    async def _read(self, receive: Receive, path: str, held: ExitStack) -> Receive:
        """Read the whole body before the app does, so that its size is limited even without a Content-Length."""
        body, more, large = bytearray(), True, False
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
            if len(body) > self._most(path):
                raise self._too_large(path)
            if len(body) > self.options.max_body and not large:
                large = True
                await self._turn(held)
        whole: Message | None = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def receive_body() -> Message:
            nonlocal whole
            message, whole = whole, None
            return message if message is not None else await receive()

        return receive_body

    async def _turn(self, held: ExitStack) -> None:
        """Wait until there is room for a large body; the rest of it is not received before."""
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._large.acquire()
        except TimeoutError:
            again = {"Retry-After": "5"}
            raise Problem(503, "Too many large requests arrive at once.", "Try again in a moment.", again) from None
        held.callback(self._large.release)

    def _most(self, path: str) -> int:
        """The largest body that an address accepts."""
        return {_SEARCH: self.options.max_search, _EXPORT: self.options.max_export}.get(path, self.options.max_body)

    def _too_large(self, path: str) -> Problem:
        return Problem(413, f"The request is larger than {self._most(path)} bytes.", "Send less.")


def client_address(scope: Scope) -> str:
    """Where a request comes from; a proxy's own address if there is one in between."""
    return str((scope.get("client") or ("unknown",))[0])


def _name(host: str) -> str:
    """A Host header without its port.

    >>> [_name(host) for host in ("localhost:80", "[::1]:80", "127.0.0.1", "::1", "evil.example:80")]
    ['localhost', '::1', '127.0.0.1', '::1', 'evil.example']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.rpartition(":")[0] or host
    return host
