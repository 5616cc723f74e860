"""``prvr mcp``: let an assistant search a library."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from prvr.assistant import AssistantOptions, serve_http, serve_stdio
from prvr.cli.libraries import LibraryPath, default_library
from prvr.cli.token import find_token
from prvr.lake import open_library
from prvr.server import ServerOptions
from prvr.terminal import Console


@dataclass(frozen=True)
class McpArguments:
    """Let an assistant search a library, look at the evidence and cut clips, over the Model Context Protocol.

    An assistant starts this command itself and speaks with it on standard input and output. Tell it how, in the file in
    which it keeps its servers:

        {"mcpServers": {"videos": {"command": "prvr", "args": ["mcp", "/path/to/library.prvr"]}}}

    With --http it listens on a port instead, for assistants that connect to an address: http://127.0.0.1:7871/mcp. To
    let other machines connect, give --host 0.0.0.0 and a --token, which they send as "Authorization: Bearer TOKEN".
    Needs pip install "prvr[mcp]".
    """

    library: tyro.conf.Positional[LibraryPath] = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    http: bool = False
    """listen on a port instead of standard input"""
    host: str = "127.0.0.1"
    """with --http: address to listen on; 0.0.0.0 means every address of this machine"""
    port: int = 7871
    """with --http: port to listen on; 0 takes any free port"""
    token: str | None = None
    """with --http: secret that every request must carry, at least 16 characters [$PRVR_TOKEN]"""
    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """with --http: file that holds the token and nothing else [$PRVR_TOKEN_FILE]"""
    certfile: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """with --http: serve over HTTPS, with this certificate (PEM)"""
    keyfile: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """with --http: the certificate's private key (PEM, without a password)"""
    options: Annotated[AssistantOptions, tyro.conf.arg(name="")] = field(default_factory=AssistantOptions)


def mcp_command(argv: list[str]) -> int:
    arguments = tyro.cli(McpArguments, prog="prvr mcp", args=argv)
    library, console = open_library(arguments.library), Console(stderr=True, highlight=False, soft_wrap=True)
    if not arguments.http:
        if sys.stdin.isatty():
            console.print(f"waiting for an assistant on standard input. Its configuration: {_line(arguments.library)}")
        for ending in (signal.SIGINT, signal.SIGTERM):  # Python's own way to end would wait for a line of input
            signal.signal(ending, signal.SIG_DFL)
        serve_stdio(library, arguments.options)
        return 0
    server = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=find_token(arguments.token, arguments.token_file),
        certfile=arguments.certfile,
        keyfile=arguments.keyfile,
    )
    serve_http(
        library,
        arguments.options,
        server,
        lambda address: console.print(f"for assistants: [bold]{address}[/]   Ctrl-C stops it", markup=True),
    )
    return 0


def _line(library: str) -> str:
    """The line that tells an assistant how to start this command."""
    place = library if "://" in library else str(Path(library).resolve())
    return json.dumps({"mcpServers": {"videos": {"command": "prvr", "args": ["mcp", place]}}}).replace("[", "\\[")
