"""Run the app until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from prvr.library import Library
from prvr.server.app import create_app
from prvr.server.options import ServerError, ServerOptions

_GRACE = 5  # seconds that open answers get when the server is stopped


def serve(library: Library, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Listen and answer until Ctrl-C or SIGTERM; ``ready`` is told the address. Port 0 takes any free one."""
    listening = listen(options)
    port = listening.getsockname()[1]
    library.tracks  # noqa: B018 (the encoder is loaded now: what is wrong with it is said before anybody asks)
    app = create_app(library, options)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        limit_concurrency=2000,
        lifespan="on",
    )
    ready(f"http://{options.shown_host}:{port}/")
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def listen(options: ServerOptions) -> socket.socket:
    """A socket at the address that was asked for; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host.strip("[]"), options.port))
    except OSError as problem:
        listening.close()
        raise ServerError(
            f"{options.host}:{options.port} cannot be listened on ({problem.strerror}): choose another --port"
        ) from problem
    return listening
