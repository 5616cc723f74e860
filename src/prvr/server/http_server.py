"""Listen on a port and run the app until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from prvr.library import Library
from prvr.processes import allow_open_files
from prvr.server.app import create_app
from prvr.server.guard import PROXIED, Guard, client_address
from prvr.server.jobs import Jobs
from prvr.server.metrics import Metrics
from prvr.server.options import ServerError, ServerOptions
from prvr.server.protocol import HEAD_SECONDS, TimeLimitedProtocol

_GRACE = 5  # seconds for open responses to finish when the server is stopped
_FILES = 8192  # open files to ask the system for; half of them are for connections


class _Server(uvicorn.Server):
    """Stops jobs before it closes connections, so that clients who follow a job are told."""

    def __init__(self, config: uvicorn.Config, jobs: Jobs | None = None):
        super().__init__(config)
        self.jobs = jobs

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.is_ssl:  # uvicorn leaves it at a minute
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_SECONDS)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.jobs is not None:
            await self.jobs.close()
        await super().shutdown(sockets)


def serve(library: Library, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Serve a library until Ctrl-C or SIGTERM. ``ready`` is called with the address."""
    listening = listen(options)
    port = listening.getsockname()[1]
    library.prepare()
    server = build_server(create_app(library, options))
    listening.listen()  # clients that read the address may connect before the server runs
    ready(f"{options.scheme}://{options.shown_host}:{port}/")
    with listening:
        server.run(sockets=[listening])


def listen(options: ServerOptions) -> socket.socket:
    """Bind a socket to the address in the options. Port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host.strip("[]"), options.port))
    except OSError as problem:
        listening.close()
        remedy = "choose another --port"
        if problem.errno == errno.EADDRNOTAVAIL:
            remedy = "choose another --host, this is not an address of this machine"
        raise ServerError(
            f"the server cannot listen on {options.host}:{options.port} ({problem.strerror}): {remedy}"
        ) from problem
    return listening


def serve_app(app: ASGIApp, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Serve another application until Ctrl-C or SIGTERM, behind the same checks of host, origin, token and sizes.

    Args:
        app: whose paths need the token if they begin with ``/mcp`` or ``/v1/``.
        options: where to listen, and who may connect.
        ready: called with the address.
    """
    listening = listen(options)
    server = _Server(_config(Guard(app, options, Metrics()), options))
    listening.listen()
    ready(f"{options.scheme}://{options.shown_host}:{listening.getsockname()[1]}/")
    with listening:
        server.run(sockets=[listening])


def build_server(app: FastAPI) -> uvicorn.Server:
    """A server that runs the app, with its limits set."""
    return _Server(_config(app, app.state.prvr.options), app.state.prvr.jobs)


class _BehindProxies:
    """Believes the X-Forwarded headers of some proxies, and notes in the scope that a request came through one."""

    def __init__(self, app: ASGIApp, proxies: list[str]):
        self.app = ProxyHeadersMiddleware(cast(Any, app), proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PROXIED] = client_address(scope) in self.app.trusted_hosts
        await self.app(cast(Any, scope), cast(Any, receive), cast(Any, send))


def _config(app: ASGIApp, options: ServerOptions) -> uvicorn.Config:
    return uvicorn.Config(
        _BehindProxies(app, options.proxy_networks) if options.proxies else app,
        loop="asyncio",  # uvloop starts processes by a fork, which waits for ever while NumPy multiplies in a thread
        http=TimeLimitedProtocol,
        ssl_certfile=options.certfile,
        ssl_keyfile=options.keyfile,
        ws="none",
        h11_max_incomplete_event_size=options.max_head,
        proxy_headers=False,  # _BehindProxies does it
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        limit_concurrency=allow_open_files(_FILES) // 2,
        lifespan="on",
    )
