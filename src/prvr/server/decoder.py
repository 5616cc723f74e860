"""A process that decodes pictures for the server, so that a broken file cannot crash it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from prvr.server import processes

_TIMEOUT = 20.0  # seconds for one picture


class DecoderProcess:
    """Runs a program that answers requests, one at a time. It is started when it is needed."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: asyncio.subprocess.Process | None = None

    async def decode(self, request: Mapping[str, Any], content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a request and what belongs to it. Returns the answer and its content, or ``{"problem": reason}``.

        Callers wait for the answer before they send another request.
        """
        try:
            return await asyncio.wait_for(self._exchange(json.dumps(request).encode() + b"\n" + content), _TIMEOUT)
        except asyncio.CancelledError:  # the next request must not read the response to this one
            self._stop()
            raise
        except (TimeoutError, OSError, ValueError, EOFError):
            self._stop()
            return {"problem": "the decoder crashed or took too long"}, b""

    async def _exchange(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        if self._process is None or self._process.returncode is not None:
            self._process = await processes.start(self.module)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(message)
        await self._process.stdin.drain()
        response = json.loads(await self._process.stdout.readline())
        return response, await self._process.stdout.readexactly(int(response.get("size", 0)))

    def _stop(self) -> None:
        """Stop the process; the next request starts a new one."""
        processes.stop(self._process)
        self._process = None

    async def close(self) -> None:
        process = self._process
        self._stop()
        if process is not None:
            await process.wait()
