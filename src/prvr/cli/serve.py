"""``prvr serve``: a library as a page in the browser, and as an API for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from prvr.cli.libraries import LibraryPath, default_library
from prvr.cli.token import find_token
from prvr.lake import open_library
from prvr.library import Library
from prvr.media import video_path
from prvr.server import ServerError, ServerOptions, serve, serve_on_cluster
from prvr.terminal import Console


@dataclass(frozen=True)
class ServeArguments:
    """Open a library in the browser. By default only this machine can reach it.

    To let other machines connect, give --host 0.0.0.0 and a token; the page asks for it. Other users of this machine
    can see --token in the list of processes, so better put it into a file (--token-file) or into $PRVR_TOKEN. With
    --view-token-file, whoever has only that second token can search, watch and export, and change nothing. With
    --certfile and --keyfile the page is served over HTTPS.

    To add videos from the page, name the folders that they may come from: --allow-root FILMS. Ctrl-C stops the server.
    Videos that were being added then are added by the next request for the same folder.
    """

    library: tyro.conf.Positional[LibraryPath] = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    host: str = "127.0.0.1"
    """address to listen on; 0.0.0.0 means every address of this machine"""
    port: int = 7870
    """port to listen on; 0 takes any free port"""
    token: str | None = None
    """secret that every request must carry, at least 16 characters [$PRVR_TOKEN]"""
    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """file that holds the token and nothing else [$PRVR_TOKEN_FILE]"""
    view_token: str | None = None
    """second secret, for people who may search, watch and export but change nothing [$PRVR_VIEW_TOKEN]"""
    view_token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """file that holds the second token and nothing else [$PRVR_VIEW_TOKEN_FILE]"""
    certfile: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """serve over HTTPS, with this certificate (PEM)"""
    keyfile: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the certificate's private key (PEM, without a password)"""
    trusted_proxy: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ADDRESS")] = ()
    """addresses or networks of proxies in front, whose X-Forwarded-For and X-Forwarded-Proto are believed"""
    allow_root: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DIR|URI")] = ()
    """folders, or their addresses in a bucket, that videos may be added from, through the page or the API"""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """serve from a Ray cluster: auto (the one this machine is in), host:port, or local (a new one here)"""
    replicas: int = 1
    """number of servers on the cluster that answer, each for the whole library"""


def serve_command(argv: list[str]) -> int:
    arguments = tyro.cli(ServeArguments, prog="prvr serve", args=argv)
    options = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=find_token(arguments.token, arguments.token_file),
        view_token=find_token(arguments.view_token, arguments.view_token_file, "PRVR_VIEW_TOKEN"),
        certfile=arguments.certfile,
        keyfile=arguments.keyfile,
        proxies=arguments.trusted_proxy,
        roots=tuple(video_path(root) for root in arguments.allow_root),
    )
    library = open_library(arguments.library)
    if arguments.cluster is None and arguments.replicas != 1:
        raise ServerError("--replicas is for a cluster: add --cluster ADDRESS, or leave it out")
    if arguments.cluster is None:
        open_page(library, options)
    else:
        serve_on_cluster(library, options, arguments.cluster, arguments.replicas, _announce())
    return 0


def open_page(library: Library, options: ServerOptions) -> None:
    """Print the address and serve until Ctrl-C."""
    serve(library, options, _announce())


def _announce() -> Callable[[str], None]:
    console = Console(highlight=False, soft_wrap=True)

    def ready(address: str) -> None:
        console.print(f"the page: [bold]{address}[/]   the API: {address}v1/docs   Ctrl-C stops it", markup=True)

    return ready
