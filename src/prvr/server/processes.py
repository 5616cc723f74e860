"""Processes for work with files that somebody else made: what a decoder does to itself stays there."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

_LONGEST_LINE = 1 << 24


async def start(module: str) -> Process:
    """Run a module of this package that is spoken to in lines. Searches go before it, and so does their memory."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LONGEST_LINE,
        start_new_session=True,  # Ctrl-C is for the server, which then stops this one
    )  # fmt: skip
    with suppress(OSError, AttributeError):  # where the system has no such thing, it stays as it is
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    with suppress(OSError):  # where memory runs out, this process is ended and not the server
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return process


def stop(process: Process | None) -> None:
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
