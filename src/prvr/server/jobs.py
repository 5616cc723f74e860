"""Work that takes longer than a request: adding videos, one job after the other, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prvr.server.problems import Problem

State = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
_KEPT = 100  # jobs remembered
_QUEUED = 20  # jobs that may wait
_log = logging.getLogger("prvr.server")


@dataclass
class Job:
    """One call to add."""

    id: int
    what: str  # in the words of whoever asked: root and path
    files: tuple[Path, ...]
    tags: tuple[str, ...]
    retry: bool
    state: State = "queued"
    progress: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    created: float = field(default_factory=time.time)
    version: int = 0  # grows with every change
    process: asyncio.subprocess.Process | None = None


class Jobs:
    """The queue, and who listens to it."""

    def __init__(self, library: Path):
        self.library = library
        self.all: dict[int, Job] = {}
        self._queue: asyncio.Queue[Job] = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._runner: asyncio.Task[None] | None = None
        self._count = 0
        self.closing = False

    def start(self) -> None:
        self._runner = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop: the library keeps what was added, and adding the same folder again goes on."""
        self.closing = True
        for job in self.all.values():
            if job.state not in ENDED:
                await self.cancel(job, "the server was stopped: add it again to go on")
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    def add(self, what: str, files: tuple[Path, ...], tags: tuple[str, ...], retry: bool) -> Job:
        if sum(job.state == "queued" for job in self.all.values()) >= _QUEUED:
            raise Problem(503, "too many jobs are waiting", "wait until some are done", {"Retry-After": "10"})
        self._count += 1
        job = Job(self._count, what, files, tags, retry)
        self.all[job.id] = job
        for old in [each for each in self.all.values() if each.state in ENDED][: max(0, len(self.all) - _KEPT)]:
            del self.all[old.id]
        self._queue.put_nowait(job)
        return job

    def get(self, number: int) -> Job:
        if number not in self.all:
            raise Problem(404, f"there is no job {number}", "list them: GET /v1/jobs")
        return self.all[number]

    async def cancel(self, job: Job, why: str = "cancelled; what was added so far is kept") -> None:
        if job.state in ENDED:
            return
        await self._change(job, state="cancelled", problem=why)
        if job.process is not None and job.process.returncode is None:
            job.process.kill()  # a library bears it

    async def follow(self, job: Job) -> AsyncIterator[Job | None]:
        """The job at every change until it ends; None as a sign of life when nothing happens."""
        seen = -1
        while True:
            if job.version != seen:
                seen = job.version
                yield job
                if job.state in ENDED:
                    return
            try:
                async with self._changed:
                    await asyncio.wait_for(self._changed.wait_for(lambda: job.version != seen), 10)  # noqa: B023
            except asyncio.TimeoutError:
                yield None

    async def _run(self) -> None:
        while True:
            job = await self._queue.get()
            if job.state != "queued":
                continue
            try:
                await self._work(job)
            except OSError:
                _log.exception("job %s", job.id)
                await self._change(job, state="failed", problem="adding could not be started on this machine")

    async def _work(self, job: Job) -> None:
        await self._change(job, state="running")
        pipe = asyncio.subprocess.PIPE
        job.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "prvr.server.worker", stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 24, start_new_session=True,  # Ctrl-C is for the server, which then stops this one
        )  # fmt: skip
        assert job.process.stdin is not None
        assert job.process.stdout is not None
        asked = {
            "library": str(self.library),
            "files": [str(file) for file in job.files],
            "tags": job.tags,
            "retry": job.retry,
        }
        try:
            job.process.stdin.write(json.dumps(asked).encode() + b"\n")
            job.process.stdin.close()
            async for line in job.process.stdout:
                told = json.loads(line)
                if job.state == "running":
                    await self._change(job, **told)
        finally:
            if job.process.returncode is None and job.state in ENDED:
                job.process.kill()
            code = await job.process.wait()
        if job.state == "running":
            if job.problem is not None or code != 0:
                crashed = "a file made the decoder crash; the others before it were added. Add them in smaller groups"
                problem = _without_paths(job.problem, job.files, self.library) if job.problem else crashed
                await self._change(job, state="failed", problem=problem)
            else:
                await self._change(job, state="done")

    async def _change(self, job: Job, **values: Any) -> None:
        for name, value in values.items():
            setattr(job, name, value)
        job.version += 1
        async with self._changed:
            self._changed.notify_all()


def _without_paths(text: str, files: tuple[Path, ...], library: Path) -> str:
    """A message of the library with names in the place of paths."""
    for path in sorted((*files, library, library.resolve()), key=lambda each: -len(str(each))):
        text = text.replace(str(path), path.name)
    return text
