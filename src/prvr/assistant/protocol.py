"""Offer the tools over the Model Context Protocol: to a program that starts this one, or on a port."""

from __future__ import annotations

import asyncio
import errno
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from prvr import __version__
from prvr.assistant.clip_folder import ClipFolder
from prvr.assistant.tools import CLIP_ADDRESS, LibraryTools
from prvr.errors import UserError
from prvr.library import Library
from prvr.server import ServerOptions, serve_app

ADDRESS_PATH = "/mcp"
_INSTRUCTIONS = (
    "This server searches a person's own videos. `search` finds the moments that a sentence describes; `explain` shows "
    "the evidence for one video; `more_like_this` finds similar moments; `pictures` shows what can be seen at given "
    "times; `clip` cuts a part into a file; `list_videos` and `overview` say what is there. Videos are named by their "
    "number, times are in seconds. Tell the person the file and the time, and pass on how far the answer can be "
    "trusted (`message`, `sure`)."
)


@dataclass(frozen=True)
class AssistantOptions:
    """What an assistant may do."""

    clips: Path | None = None
    """folder for clips that the assistant cuts [one in the user's cache, which keeps the newest GiB]"""
    longest_clip: float = 300.0
    """greatest length of a clip in seconds"""

    def __post_init__(self) -> None:
        if not 0 < self.longest_clip <= 86400:
            raise AssistantError(f"--longest-clip must be above 0 and at most a day, not {self.longest_clip:g}")
        if self.clips is not None and self.clips.exists() and not self.clips.is_dir():
            raise AssistantError(f"--clips {self.clips} is a file: name a folder")


class AssistantError(UserError):
    """The options do not fit; the message says what to do."""


def build_assistant(library: Library, options: AssistantOptions | None = None) -> AssistantServer:
    """A server with the tools of a library."""
    options = options or AssistantOptions()
    tools = LibraryTools(library, ClipFolder.of(options.clips, library.address), options.longest_clip)
    server = AssistantServer(
        tools, "prvr", title="Video search", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for tool, title, hints in (
        (tools.search, "Search videos", reads),
        (tools.explain, "Explain a hit", reads),
        (tools.more_like_this, "Find similar moments", reads),
        (tools.pictures, "Look at a video", reads),
        (tools.clip, "Cut a clip", writes),
        (tools.list_videos, "List videos", reads),
        (tools.overview, "What the library holds", reads),
    ):
        server.add_tool(tool, title=title, description=inspect.getdoc(tool), annotations=hints)

    def clip(name: str) -> bytes:
        try:
            return tools.read_clip(name)
        except UserError as problem:
            raise ResourceError(str(problem)) from problem

    about = "a clip that `clip` has cut"
    server.resource(CLIP_ADDRESS, name="clip", description=about, mime_type="video/mp4")(clip)
    return server


class AssistantServer(MCPServer[Any]):  # type: ignore[misc]  # the same verdict with and without the extra
    """A server of the protocol that answers what goes wrong with one sentence."""

    def __init__(self, tools: LibraryTools, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.close = tools.close

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as problem:
            cause = problem.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(_wrong_arguments(name, cause)) from cause
            if isinstance(cause, UserError):
                raise ToolError(str(cause)) from cause
            if isinstance(cause, OSError):  # a full disk, a folder without permission
                file = "" if cause.filename is None else f": {cause.filename}"
                raise ToolError(f"{cause.strerror or cause}{file}") from cause
            raise


def _wrong_arguments(tool: str, problem: ValidationError) -> str:
    reasons = []
    for error in problem.errors():
        name = ".".join(str(part) for part in error["loc"])
        reasons.append(f"`{name}`: {error['msg'][:1].lower()}{error['msg'][1:]}")
    return f"The arguments of {tool} are wrong: {'; '.join(reasons)}."


def serve_stdio(library: Library, options: AssistantOptions | None = None) -> None:
    """Speak the protocol on standard input and output until the input ends. Everything else goes to standard error.

    Raises:
        BrokenPipeError: nobody reads the output any more.
    """
    server = build_assistant(library, options)
    threading.Thread(target=_load_encoder, args=(library,)).start()  # no daemon: torch aborts if it is cut off

    async def run() -> None:
        try:
            await server.run_stdio_async()
        finally:
            await server.close()

    try:
        asyncio.run(run())
    except BaseExceptionGroup as problems:  # of the tasks that read, write and answer
        broken, others = problems.split(BrokenPipeError)
        if broken is None or others is not None:
            raise
        raise BrokenPipeError(errno.EPIPE, "the assistant went away") from problems


def serve_http(
    library: Library,
    options: AssistantOptions,
    server_options: ServerOptions,
    ready: Callable[[str], None],
) -> None:
    """Speak the protocol (streamable HTTP) on a port until Ctrl-C, behind the checks of ``prvr serve``.

    Args:
        library: what is searched.
        options: what an assistant may do.
        server_options: where to listen, and the token.
        ready: called with the address.
    """
    library.prepare()
    server = build_assistant(library, options)
    app = server.streamable_http_app(
        streamable_http_path=ADDRESS_PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # serve_app checks more
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with inner(app) as state:
            try:
                yield state
            finally:
                await server.close()

    app.router.lifespan_context = lifespan
    serve_app(app, server_options, lambda address: ready(f"{address.rstrip('/')}{ADDRESS_PATH}"))


def _load_encoder(library: Library) -> None:
    """Load the encoder while the client introduces itself. A problem is told by the first search."""
    with suppress(UserError, OSError):
        library.prepare()
