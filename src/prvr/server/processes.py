"""Processes for work with files that somebody else made: what a decoder does to itself stays there."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from prvr.processes import python_command

_LONGEST_LINE = 1 << 24
_ENDING = 10.0  # seconds that a process may take to end


async def start(module: str) -> Process:
    """Run a module of this package that is spoken to in lines. Searches go before it, and so does their memory."""
    process = await asyncio.create_subprocess_exec(
        *python_command(module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LONGEST_LINE,
        start_new_session=True,  # Ctrl-C is for the server, which then stops this one
    )  # fmt: skip
    with suppress(OSError, AttributeError):  # where the system has no such thing, it stays as it is
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    with suppress(OSError):  # where memory runs out, this process is ended and not the server
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return process


def stop(process: Process | None) -> None:
    """Kill it, if it is there. Not by ``Process.kill``: that asks for the exit status of one that has just ended, which
    whoever waits for it would then not get."""
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has the one, which kills there


async def ended(process: Process) -> int:
    """The exit status of a process that has said its last; one that does not end by itself is stopped."""
    with suppress(asyncio.TimeoutError):
        return await asyncio.wait_for(process.wait(), _ENDING)
    stop(process)
    return await process.wait()
