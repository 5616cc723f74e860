"""The processes that decode videos. A decoder that crashes or hangs ends its own process, not the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from prvr.processes import python_command

_MAX_LINE = 1 << 24  # bytes
_EXIT_SECONDS = 10.0  # time for a process to end by itself


async def start(module: str, environment: Mapping[str, str] | None = None) -> Process:
    """Run a module that reads and writes lines. It has a lower CPU priority, and is killed first if memory runs out.

    ``environment``: variables besides those of this process.
    """
    process = await asyncio.create_subprocess_exec(
        *python_command(module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE,
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # Ctrl-C reaches the server only, which then stops this one
    )  # fmt: skip
    with suppress(OSError, AttributeError):  # not available on every system
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    with suppress(OSError):  # exists on Linux only
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return process


def stop(process: Process | None) -> None:
    """Kill a process, if it is running.

    Does not use ``Process.kill``: it collects the exit status of a process that has just ended, and ``wait`` misses it.
    """
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows, SIGTERM kills


async def exit_status(process: Process) -> int:
    """Wait for a process that has closed its output. It is killed if it does not end by itself."""
    with suppress(asyncio.TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            return await process.wait()
    stop(process)
    return await process.wait()


class DecoderProcess:
    """A process that answers requests one after the other. It is started with the first, and again after a crash.

    Args:
        module: what it runs. It reads a request as a line of JSON. It answers with a line of JSON, after which it
            writes as many bytes as its field ``size`` says. Lines with a field ``done`` before it report progress.
        patience: seconds without a line after which it is killed, because a decoder can hang.
        longest: seconds for one request.
    """

    def __init__(self, module: str, patience: float, longest: float):
        self._module, self._patience, self._longest = module, patience, longest
        self._process: Process | None = None

    async def ask(self, request: dict[str, Any], content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a request, and bytes that belong to it. Returns the answer, and the bytes after it.

        If the process crashes or hangs, the answer's field ``problem`` says so. Callers wait for an answer before they
        send another request. A process that is given up has ended when this returns, and writes no more files.
        """
        try:
            async with asyncio.timeout(self._longest):
                return await self._ask(json.dumps(request).encode() + b"\n" + content)
        except asyncio.CancelledError:  # the next request must not read the answer to this one
            await self.close()
            raise
        except (TimeoutError, OSError, ValueError, EOFError):
            await self.close()
            return {"problem": "the decoder crashed or took too long"}, b""

    async def _ask(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        if self._process is None or self._process.returncode is not None:
            self._process = await start(self._module)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(message)
        await self._process.stdin.drain()
        answer = {"done": 0.0}
        while "done" in answer:
            async with asyncio.timeout(self._patience):
                answer = json.loads(await self._process.stdout.readline())
        return answer, await self._process.stdout.readexactly(int(answer.get("size", 0)))

    async def close(self) -> None:
        """End the process; the next request starts a new one."""
        process, self._process = self._process, None
        stop(process)
        if process is not None:
            with suppress(asyncio.TimeoutError):  # one that waits for a dead disk cannot be killed
                async with asyncio.timeout(_EXIT_SECONDS):
                    await process.wait()
