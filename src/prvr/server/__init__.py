"""Serve a library over HTTP: an API for programs and a page for people. Needs ``pip install "prvr[server]"``."""

from prvr.media import MissingExtra
from prvr.server.options import ServerError, ServerOptions

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as problem:  # pragma: no cover
    raise MissingExtra("FastAPI, which serves the page and the API,", "server", problem) from problem

from prvr.server.app import create_app
from prvr.server.http_server import build_server, listen, serve, serve_app
from prvr.server.on_ray import serve_on_cluster
from prvr.server.processes import DecoderProcess

__all__ = [
    "DecoderProcess",
    "ServerError",
    "ServerOptions",
    "build_server",
    "create_app",
    "listen",
    "serve",
    "serve_app",
    "serve_on_cluster",
]
