"""Serve a lake with several replicas on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from prvr.library import Library
from prvr.server.options import ServerOptions


def serve_on_cluster(
    library: Library, options: ServerOptions, address: str, replicas: int, ready: Callable[[str], None]
) -> None:
    raise NotImplementedError
