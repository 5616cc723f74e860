"""The queue of jobs, without a server around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from prvr.server import processes
from prvr.server.jobs import Jobs
from prvr.server.roots import Roots


class _SilentWorker:
    """A process that says nothing until it is killed; its output then ends at once."""

    def __init__(self) -> None:
        self.stdin, self.stdout, self.pid, self.returncode = self, asyncio.StreamReader(), 0, None

    def write(self, line: bytes) -> None: ...

    def close(self) -> None: ...

    async def wait(self) -> int:
        return -9


def test_stopping_ends_although_the_worker_ends_in_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: Any) -> Any:
        return _SilentWorker()

    monkeypatch.setattr(processes, "start", start)
    monkeypatch.setattr(processes, "stop", lambda process: process and process.stdout.feed_eof())

    async def stopped() -> str:
        jobs = Jobs(str(tmp_path), Roots(()))
        jobs.start()
        job = jobs.add("films", (tmp_path / "film.mp4",), (), retry=False)
        while job.process is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)  # it waits for the worker's first line
        async with asyncio.timeout(10):
            await jobs.close()
        return job.state

    assert asyncio.run(stopped()) == "cancelled"


def test_the_end_is_told_although_it_comes_while_the_change_before_is_sent(tmp_path: Path) -> None:
    async def told() -> list[str]:
        jobs = Jobs(str(tmp_path), Roots(()))
        job = jobs.add("films", (tmp_path / "film.mp4",), (), retry=False)
        states = list[str]()
        async with asyncio.timeout(10):
            async for change in jobs.follow(job):
                assert change is not None
                states.append(change.state)
                await jobs.cancel(job)  # as if sending took until then
        return states

    assert asyncio.run(told()) == ["queued", "cancelled"]
