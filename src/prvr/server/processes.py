"""Separate processes for reading other people's files: a decoder that crashes ends its process only."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from prvr.processes import python_command

_LONGEST_LINE = 1 << 24
_ENDING = 10.0  # seconds for a process to end by itself


async def start(module: str) -> Process:
    """Start a module that reads and writes lines. It has a lower priority than searches, and less claim to memory."""
    process = await asyncio.create_subprocess_exec(
        *python_command(module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LONGEST_LINE,
        start_new_session=True,  # Ctrl-C reaches the server only, which then stops this one
    )  # fmt: skip
    with suppress(OSError, AttributeError):  # not on every system
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    with suppress(OSError):  # if memory runs out, this process is ended and not the server
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return process


def stop(process: Process | None) -> None:
    """Kill a process, if it is running.

    Not by ``Process.kill``: that collects the exit status of a process that has just ended, which ``wait`` then misses.
    """
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has the one, which kills there


async def ended(process: Process) -> int:
    """The exit status of a process that closed its output; one that does not end by itself is stopped."""
    with suppress(asyncio.TimeoutError):
        return await asyncio.wait_for(process.wait(), _ENDING)
    stop(process)
    return await process.wait()
