"""Checks of every request before anything else (host, origin, token, sizes), and headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prvr.server.metrics import Metrics
from prvr.server.options import ServerOptions, is_loopback
from prvr.server.problems import Problem

COOKIE = "prvr_token"
_OPEN = {"/v1/health", "/v1/session"}  # work without a token
GUARD_STATUSES = (401, 403, 408, 413, 414, 421, 431)
BODY_SECONDS = 20.0  # time for a small body to arrive; after it, the client is stalling
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
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
_API_HEADERS = (*_HEADERS, (b"cache-control", b"no-store"))


class Guard:
    """Outermost layer of the app: refuses requests and adds security headers to answers."""

    def __init__(self, app: ASGIApp, options: ServerOptions, metrics: Metrics):
        self.app, self.options, self.metrics = app, options, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                added = _API_HEADERS if scope["path"].startswith("/v1/") else _HEADERS
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in given)]
            await send(message)

        try:
            self._check(scope)
            if scope["method"] in _CHANGING:
                try:
                    receive = await asyncio.wait_for(self._read(receive), BODY_SECONDS)
                except TimeoutError:
                    raise Problem(408, "the body of the request did not arrive in time", "send it at once") from None
            await self.app(scope, receive, answer)
        except Problem as problem:
            await problem.response()(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(scope["method"], route, status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        options = self.options
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > options.max_url:
            raise Problem(414, f"the address is longer than {options.max_url} bytes", "make the query shorter")
        if not scope["query_string"].isascii():  # the framework fails on them when it builds a URL
            raise Problem(400, "the address contains bytes that are not ASCII", "write them as %XX")
        if sum(len(name) + len(value) for name, value in headers.raw) > options.max_head:
            raise Problem(431, f"the headers are longer than {options.max_head} bytes", "send fewer of them")
        host = headers.get("host", "")
        if is_loopback(options.host) and not is_loopback(
            _name(host)
        ):  # another site's name that points to this machine
            raise Problem(421, "this server answers only as localhost", "open it as http://localhost")
        method = scope["method"]
        if method in _CHANGING:
            origin = headers.get("origin")
            if origin is not None and origin.split("://", 1)[-1] != host:
                raise Problem(
                    403, "the request comes from another site's page", "use the server's own page, or no Origin"
                )
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise Problem(403, "the request comes from another site's page", "use the server's own page")
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > options.max_body:
            raise self._too_large()
        path = scope["path"]
        guarded = path.startswith("/v1/") or path == "/metrics"
        if options.token is not None and guarded and path not in _OPEN and not token_given(headers, options.token):
            raise Problem(
                401,
                "this server needs its token",
                "send it as Authorization: Bearer TOKEN, or type it in on the page",
                {"WWW-Authenticate": "Bearer"},
            )

    async def _read(self, receive: Receive) -> Receive:
        """Read the whole body first, so that its size is limited even if it was not declared."""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
            if len(body) > self.options.max_body:
                raise self._too_large()
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def once() -> Message:
            nonlocal whole
            message, whole = whole, None
            return message if message is not None else await receive()

        return once

    def _too_large(self) -> Problem:
        return Problem(413, f"the request is larger than {self.options.max_body} bytes", "send less")


def token_given(headers: Headers, token: str) -> bool:
    """Whether a request has the token, in a header or in the cookie of the page."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and same(given.strip(), token):
        return True
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return False
    return cookie is not None and same(cookie.value, token)


def same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


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
