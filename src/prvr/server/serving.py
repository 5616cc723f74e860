"""Run the app until it is stopped."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from prvr.library import Library
from prvr.server.app import create_app
from prvr.server.impatience import ImpatientProtocol
from prvr.server.jobs import Jobs
from prvr.server.options import ServerError, ServerOptions

_GRACE = 5  # seconds that open answers get when the server is stopped
_FILES = 8192  # open files that are enough for everybody; half of them for connections


class _Server(uvicorn.Server):
    """Ends jobs before it waits for connections: whoever follows one hears that it was stopped."""

    def __init__(self, config: uvicorn.Config, jobs: Jobs):
        super().__init__(config)
        self.jobs = jobs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.jobs.close()
        await super().shutdown(sockets)


def serve(library: Library, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Listen and answer until Ctrl-C or SIGTERM; ``ready`` is told the address. Port 0 takes any free one."""
    listening = listen(options)
    port = listening.getsockname()[1]
    library.tracks  # noqa: B018 (the encoder is loaded now: what is wrong with it is said before anybody asks)
    server = server_of(create_app(library, options))
    listening.listen()  # whoever reads the address may connect at once, and is answered a moment later
    ready(f"http://{options.shown_host}:{port}/")
    with listening:
        server.run(sockets=[listening])


def listen(options: ServerOptions) -> socket.socket:
    """A socket at the address that was asked for; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host.strip("[]"), options.port))
    except OSError as problem:
        listening.close()
        other = "--host: it is no address of this machine" if problem.errno == errno.EADDRNOTAVAIL else "--port"
        raise ServerError(
            f"{options.host}:{options.port} cannot be listened on ({problem.strerror}): choose another {other}"
        ) from problem
    return listening


def server_of(app: FastAPI) -> uvicorn.Server:
    """The app with its limits, ready to listen."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
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
    """How many files this process may open; the limit of the system is often low, and may be raised."""
    try:
        import resource
    except ImportError:  # not on every system
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
