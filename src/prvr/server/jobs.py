"""Work that takes longer than a request: adding videos, one job at a time, each in a separate process."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prvr.server import processes
from prvr.server.problems import Problem, without_paths

State = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
_KEPT = 100  # jobs remembered
_QUEUED = 20  # jobs that may wait
PATIENCE = 900.0  # seconds without progress after which a file is given up: a decoder can hang
STARTING = 900.0  # the same before the first file: an encoder may take long to load
_log = logging.getLogger("prvr.server")


@dataclass
class Job:
    """One call to add."""

    id: int
    what: str  # root and path, as the client gave them
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
    """The queue of jobs, and the clients that follow one."""

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
        """Stop all jobs. The library keeps what was added; adding the same folder again continues."""
        self.closing = True
        for job in self.all.values():
            if job.state not in ENDED:
                await self.cancel(job, "the server was stopped; add it again to continue")
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    def add(self, what: str, files: tuple[Path, ...], tags: tuple[str, ...], retry: bool) -> Job:
        if sum(job.state == "queued" for job in self.all.values()) >= _QUEUED:
            raise Problem(429, "too many jobs are waiting", "wait until some are done", {"Retry-After": "10"})
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
        processes.stop(job.process)  # safe at any time: the library keeps what is committed

    async def follow(self, job: Job) -> AsyncIterator[Job | None]:
        """Yield the job at every change until it ends, and None every ten seconds without one."""
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
            except TimeoutError:
                yield None

    async def _run(self) -> None:
        while True:
            job = await self._queue.get()
            if job.state != "queued":
                continue
            try:
                await self._work(job)
            except Exception:  # the jobs after it must still run
                _log.exception("job %s", job.id)
                await self._change(job, state="failed", problem="adding could not be started on this machine")

    async def _work(self, job: Job) -> None:
        """Add all files. A file that crashes or hangs the decoder is left out, and the others are still added."""
        await self._change(job, state="running")
        left, lost = list(job.files), dict[str, str]()
        while left:
            at, why = await self._attempt(job, left)
            if job.state != "running":
                return
            if why is None:
                break
            if at is None or at not in left:  # it failed before the first file, and would fail again
                await self._change(job, state="failed", problem=self._shown(why, job))
                return
            lost[at.name] = why
            left.remove(at)  # files before it are in the library, and the next process skips them
        told = {"added": 0, "unchanged": 0, "moved": 0, "damaged": {}, **job.report}
        if job.progress:
            whole = {"files_done": job.progress["files"], "bytes_done": job.progress["bytes"], "left": 0.0}
            job.progress = {**job.progress, **whole}
        await self._change(job, state="done", report={**told, "failed": {**told.get("failed", {}), **lost}})

    async def _attempt(self, job: Job, files: list[Path]) -> tuple[Path | None, str | None]:
        """Run one process. Returns the file it was reading, and why it failed (None if it succeeded)."""
        process = job.process = await processes.start("prvr.server.worker")
        if job.state != "running":  # it was cancelled before the process was there
            processes.stop(process)
            await process.wait()
            return None, None
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"library": str(self.library), "files": [*map(str, files)], "tags": job.tags, "retry": job.retry}
        at: Path | None = None
        code: int | None = None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.close()
            while line := await asyncio.wait_for(process.stdout.readline(), STARTING if at is None else PATIENCE):
                told = json.loads(line)
                if "problem" in told:
                    return None, str(told["problem"])
                if "at" in told:
                    at = Path(told.pop("at"))
                if job.state == "running":
                    await self._change(job, **told)
            code = await processes.ended(process)
        except TimeoutError:
            return at, "the decoder made no progress for a long time and was stopped"
        finally:
            processes.stop(process)
            await process.wait()
        crashed = "made the decoder crash" if at is not None else "the decoder crashed before it read a file"
        return (at, None) if code == 0 else (at, crashed)

    def _shown(self, why: str, job: Job) -> str:
        """Why a job failed, in words that name no path of this machine."""
        _log.warning("job %s: %s", job.id, why)
        private = (*job.files, self.library, self.library.resolve())
        return without_paths(why, private) or "adding failed; the server's own log says why"

    async def _change(self, job: Job, **values: Any) -> None:
        for name, value in values.items():
            setattr(job, name, value)
        job.version += 1
        async with self._changed:
            self._changed.notify_all()
