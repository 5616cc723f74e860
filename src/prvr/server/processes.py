"""Start and stop the processes that decode videos. A decoder that crashes ends its own process, not the server."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from prvr.processes import python_command

_MAX_LINE = 1 << 24  # bytes
_EXIT_SECONDS = 10.0  # time for a process to end by itself


async def start(module: str) -> Process:
    """Run a module that reads and writes lines. It has a lower CPU priority, and is killed first if memory runs out."""
    process = await asyncio.create_subprocess_exec(
        *python_command(module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE,
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
        return await asyncio.wait_for(process.wait(), _EXIT_SECONDS)
    stop(process)
    return await process.wait()
