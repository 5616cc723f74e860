"""Let an assistant use a library: search, evidence, pictures and clips over the Model Context Protocol.

    from prvr.assistant import AssistantOptions, serve_stdio
    from prvr.lake import open_library

    serve_stdio(open_library("films.prvr"), AssistantOptions())

Needs ``pip install "prvr[mcp]"``.
"""

from prvr.media import MissingExtra

try:
    import mcp  # noqa: F401
except ImportError as problem:  # pragma: no cover
    raise MissingExtra("mcp, which speaks the Model Context Protocol,", "mcp", problem) from problem

from prvr.assistant.protocol import AssistantOptions, AssistantServer, build_assistant, serve_http, serve_stdio

__all__ = ["AssistantOptions", "AssistantServer", "build_assistant", "serve_http", "serve_stdio"]
