"""Listen on a port and run the app until it is stopped."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from prvr.library import Library
from prvr.server.app import create_app
from prvr.server.jobs import Jobs
from prvr.server.options import ServerError, ServerOptions
from prvr.server.protocol import TimeLimitedProtocol

_GRACE = 5  # seconds for open answers to finish when the server is stopped
_FILES = 8192  # open files to ask the system for; half of them are for connections


class _Server(uvicorn.Server):
    """Ends jobs before it waits for connections, so that clients who follow a job learn that it was stopped."""

    def __init__(self, config: uvicorn.Config, jobs: Jobs):
        super().__init__(config)
        self.jobs = jobs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.jobs.close()
        await super().shutdown(sockets)


def serve(library: Library, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Listen and answer until Ctrl-C or SIGTERM. ``ready`` is called with the address."""
    listening = listen(options)
    port = listening.getsockname()[1]
    library.tracks  # noqa: B018 (loads the encoder now, so that a problem shows at the start and not at the first search)
    server = build_server(create_app(library, options))
    listening.listen()  # whoever reads the address may connect at once, and is answered a moment later
    ready(f"http://{options.shown_host}:{port}/")
    with listening:
        server.run(sockets=[listening])


def listen(options: ServerOptions) -> socket.socket:
    """A socket at the address in the options; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host.strip("[]"), options.port))
    except OSError as problem:
        listening.close()
        other = "--host: this is not an address of this machine" if problem.errno == errno.EADDRNOTAVAIL else "--port"
        raise ServerError(
            f"{options.host}:{options.port} cannot be listened on ({problem.strerror}): choose another {other}"
        ) from problem
    return listening


def build_server(app: FastAPI) -> uvicorn.Server:
    """A server for the app, with its limits set."""
    config = uvicorn.Config(
        app,
        http=TimeLimitedProtocol,
        ws="none",
        h11_max_incomplete_event_size=app.state.prvr.options.max_head,
        proxy_headers=False,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        limit_concurrency=_open_files() // 2,
        lifespan="on",
    )
    return _Server(config, app.state.prvr.jobs)


def _open_files() -> int:
    """How many files this process may open. The system's limit is often low, so it is raised if possible."""
    try:
        import resource
    except ImportError:  # not on every system
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return target
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target
