"""``prvr serve``: a library as a page in the browser, and as an API for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.console import Console

from prvr.cli.libraries import LibraryPath, default_library, open_to_read
from prvr.library import Library
from prvr.media import video_path
from prvr.objects import is_address
from prvr.server import ServerError, ServerOptions, serve


@dataclass(frozen=True)
class ServeArguments:
    """Open a library in the browser. By default only this machine can reach it.

    To let other machines connect, give --host 0.0.0.0 and a --token; the page asks for the token. To add videos from
    the page, name the folders that they may come from: --allow-root FILMS. Ctrl-C stops the server. Videos that were
    being added then are added by the next request for the same folder.
    """

    library: tyro.conf.Positional[LibraryPath] = field(default_factory=default_library)
    """the library's folder, or its address on object storage (copied here first) [$PRVR_LIBRARY or library.prvr]"""
    host: str = "127.0.0.1"
    """address to listen on; 0.0.0.0 means every address of this machine"""
    port: int = 7870
    """port to listen on; 0 takes any free port"""
    token: str | None = None
    """secret that every request must carry, at least 16 characters [$PRVR_TOKEN]"""
    allow_root: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DIR|URI")] = ()
    """folders, or their addresses in a bucket, that videos may be added from, through the page or the API"""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """serve from a Ray cluster: auto (the one this machine is in), host:port, or local (a new one here)"""
    shards: int = 1
    """number of parts that the cluster splits the library into"""
    replicas: int = 1
    """copies of each part; with two, the answer stays complete if one fails"""


def serve_command(argv: list[str]) -> int:
    arguments = tyro.cli(ServeArguments, prog="prvr serve", args=argv)
    options = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=arguments.token or os.environ.get("PRVR_TOKEN") or None,
        roots=tuple(video_path(root) for root in arguments.allow_root),
    )
    if is_address(arguments.library) and (arguments.cluster is not None or arguments.allow_root):
        raise ServerError(
            f"--cluster and --allow-root do not work with {arguments.library}, of which a copy is searched here: leave "
            "them out. Add videos with `prvr library add`; a cluster serves a library on storage that its nodes share"
        )
    library = open_to_read(arguments.library)
    if arguments.cluster is None and (arguments.shards, arguments.replicas) != (1, 1):
        raise ServerError("--shards and --replicas are for a cluster: add --cluster ADDRESS, or leave them out")
    if arguments.cluster is None:
        open_page(library, options)
    else:
        from prvr.cluster import ClusterOptions, serve_on_cluster  # Ray is an extra

        cluster = ClusterOptions(arguments.cluster, arguments.shards, arguments.replicas)
        serve_on_cluster(library, options, cluster, _announce())
    return 0


def open_page(library: Library, options: ServerOptions) -> None:
    """Print the address and serve until Ctrl-C."""
    serve(library, options, _announce())


def _announce() -> Callable[[str], None]:
    console = Console(highlight=False, soft_wrap=True)

    def ready(address: str) -> None:
        console.print(f"the page: [bold]{address}[/]   the API: {address}v1/docs   Ctrl-C stops it")

    return ready
