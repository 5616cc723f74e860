"""``prvr serve``: a library as a page in the browser, and as an API for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from prvr.cli.places import Where, default_library, opened
from prvr.library import Library
from prvr.objects import is_address
from prvr.server import ServerError, ServerOptions, serve


@dataclass(frozen=True)
class ServeArguments:
    """Open a library in the browser. It can be seen on this machine alone, unless you say otherwise.

    Another --host needs a token, which the page asks for. Videos can be added from the page if you name folders that
    they may come from: --allow-root FILMS. Ctrl-C stops it; adding that was going on can be taken up again.
    """

    library: tyro.conf.Positional[Where] = field(default_factory=default_library)
    """the library's folder, or its address on object storage (a copy is fetched now) [$PRVR_LIBRARY or library.prvr]"""
    host: str = "127.0.0.1"
    """address to listen on; 0.0.0.0 is every one of this machine"""
    port: int = 7870
    """0 takes any free one"""
    token: str | None = None
    """secret that requests must carry, 16 characters or more [$PRVR_TOKEN]"""
    allow_root: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = ()
    """folders that videos may be added from, through the page or the API"""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """serve from a Ray cluster: auto (of this machine), host:port, or local (a new one, here alone)"""
    shards: int = 1
    """parts that the library is held in, on the cluster"""
    replicas: int = 1
    """copies of each part; with two, one may fail and nothing is missing"""


def main(argv: list[str]) -> int:
    arguments = tyro.cli(ServeArguments, prog="prvr serve", args=argv)
    options = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=arguments.token or os.environ.get("PRVR_TOKEN") or None,
        roots=arguments.allow_root,
    )
    if is_address(arguments.library) and (arguments.cluster is not None or arguments.allow_root):
        raise ServerError(
            f"a copy of {arguments.library} can be searched here alone: leave --cluster and --allow-root out; videos "
            "are added by `prvr library add`, and a cluster serves a library on storage that its nodes share"
        )
    library = opened(arguments.library)
    if arguments.cluster is None and (arguments.shards, arguments.replicas) != (1, 1):
        raise ServerError("--shards and --replicas are for a cluster: say which with --cluster ADDRESS, or leave them")
    if arguments.cluster is None:
        open_page(library, options)
    else:
        from prvr.cluster import ClusterOptions, serve_on_cluster  # Ray is an extra

        cluster = ClusterOptions(arguments.cluster, arguments.shards, arguments.replicas)
        serve_on_cluster(library, options, cluster, _announce())
    return 0


def open_page(library: Library, options: ServerOptions) -> None:
    """Serve until Ctrl-C, with the address printed first."""
    serve(library, options, _announce())


def _announce() -> Callable[[str], None]:
    console = Console(highlight=False, soft_wrap=True)

    def ready(address: str) -> None:
        console.print(f"the page: [bold]{address}[/]   the API: {address}v1/docs   Ctrl-C stops it")

    return ready
