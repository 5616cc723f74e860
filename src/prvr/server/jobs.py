"""Jobs that add videos in the background: one at a time, each in a separate process."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prvr.errors import UserError, printable
from prvr.media import ONLY_BELOW, VideoFile, longest_decoding, video_path
from prvr.server import processes
from prvr.server.problems import Problem, as_sentence, without_paths
from prvr.server.roots import Roots

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
_MAX_JOBS = 100  # ended jobs are forgotten above this number
_MAX_QUEUED = 20
PATIENCE = 900.0  # seconds without progress after which a file is skipped, because a decoder can hang
STARTING = 900.0  # the same before the first file, while the encoder loads
_log = logging.getLogger("prvr.server")


@dataclass
class Job:
    """One request to add videos: its files, its progress and its outcome."""

    id: int
    what: str  # root and path, as the client gave them
    files: tuple[VideoFile, ...]
    tags: tuple[str, ...]
    retry: bool
    state: JobState = "queued"
    progress: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    created: float = field(default_factory=time.time)
    version: int = 0  # grows with every change
    process: asyncio.subprocess.Process | None = None


@dataclass(frozen=True)
class _WorkerEnd:
    """How a worker process ended."""

    file: VideoFile | None  # that it read last
    problem: str | None = None  # None if it succeeded
    report: dict[str, Any] = field(default_factory=dict)


class Jobs:
    """The queue of jobs. Runs them in order and tells clients that follow one about changes."""

    def __init__(self, library: str, roots: Roots):
        self.library = library
        self._environment = {ONLY_BELOW: json.dumps(roots.on_disk)}  # although links may change while a job waits
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
                await self.cancel(job, "The server was stopped. Add the folder again to continue.")
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    def add(self, what: str, files: tuple[VideoFile, ...], tags: tuple[str, ...], retry: bool) -> Job:
        if sum(job.state == "queued" for job in self.all.values()) >= _MAX_QUEUED:
            raise Problem(429, "Too many jobs are waiting.", "Wait until some are done.", {"Retry-After": "10"})
        self._count += 1
        job = Job(self._count, what, files, tags, retry)
        self.all[job.id] = job
        ended = [job.id for job in self.all.values() if job.state in ENDED]
        for number in ended[: max(0, len(self.all) - _MAX_JOBS)]:
            del self.all[number]
        self._queue.put_nowait(job)
        return job

    def get(self, number: int) -> Job:
        if number not in self.all:
            raise Problem(404, f"There is no job {number}.", "List the jobs with GET /v1/jobs.")
        return self.all[number]

    async def cancel(self, job: Job, reason: str = "Stopped. Videos added so far are kept.") -> None:
        """Stop a job, unless it has ended."""
        if job.state in ENDED:
            return
        await self._change(job, state="cancelled", problem=reason)
        processes.stop(job.process)  # safe at any time: the library keeps what is committed

    async def follow(self, job: Job) -> AsyncIterator[Job | None]:
        """Yield the job at every change until it ends, and None every ten seconds without one."""
        version = -1
        while True:
            if job.version != version:
                version, ended = job.version, job.state in ENDED
                yield job
                if ended:  # as it was when it was told: it may have ended while the client was sent the last change
                    return
            try:
                async with asyncio.timeout(10), self._changed:
                    await self._changed.wait_for(lambda: job.version != version)  # noqa: B023
            except TimeoutError:
                yield None

    async def _run(self) -> None:
        while True:
            job = await self._queue.get()
            if job.state != "queued":
                continue
            try:
                await self._add_files(job)
            except Exception:  # the jobs after it must still run
                _log.exception("job %s", job.id)
                await self._change(job, state="failed", problem="The process that adds videos could not be started.")

    async def _add_files(self, job: Job) -> None:
        """Add all files. A file that crashes or hangs the decoder is left out, and the others are still added."""
        await self._change(job, state="running")
        began, remaining, skipped = time.time(), list(job.files), dict[VideoFile, str]()
        report: dict[str, Any] = {}
        while remaining:
            ended = await self._run_worker(job, remaining, began if skipped else None)
            file, reason, report = ended.file, ended.problem, ended.report
            if job.state != "running":
                return
            if reason is None:
                break
            if file is None or file not in remaining:  # it failed before the first file, and would fail again
                await self._change(job, state="failed", problem=self._public_reason(reason, job))
                return
            skipped[file] = reason
            remaining.remove(file)  # files before it are in the library, and the next worker skips them
        if job.progress:
            finished = {"files_done": job.progress["files"], "bytes_done": job.progress["bytes"], "left": 0.0}
            job.progress = {**job.progress, **finished}
        await self._change(job, state="done", report=_public_report(report, skipped))

    async def _run_worker(self, job: Job, files: list[VideoFile], since: float | None) -> _WorkerEnd:
        """Run one worker process. What workers that crashed have added ``since`` this time counts as added by it."""
        process = job.process = await processes.start("prvr.server.worker", self._environment)
        if job.state != "running":  # it was cancelled while the process started
            processes.stop(process)
            await process.wait()
            return _WorkerEnd(None)
        assert process.stdin is not None
        assert process.stdout is not None
        options = {"tags": job.tags, "retry": job.retry, "since": since}
        request = {"library": self.library, "files": [*map(str, files)], **options}
        file: VideoFile | None = None
        report: dict[str, Any] = {}
        deadlines = dict[VideoFile, float]()  # progress alone does not keep a file alive
        code: int | None = None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.close()
            while True:
                patience = STARTING if file is None else min(PATIENCE, deadlines[file] - time.monotonic())
                async with asyncio.timeout(max(0.0, patience)):
                    line = await process.stdout.readline()
                if not line:
                    break
                message = json.loads(line)
                if "problem" in message:
                    return _WorkerEnd(None, str(message["problem"]))
                report = message.pop("report", report)
                if "at" in message:
                    file = video_path(message.pop("at"))
                    if file not in deadlines:
                        deadlines[file] = time.monotonic() + await asyncio.to_thread(_longest, file)
                if job.state == "running":
                    await self._change(job, **message)
            code = await processes.exit_status(process)
        except TimeoutError:
            if file is not None and time.monotonic() >= deadlines[file]:
                return _WorkerEnd(file, "took too long for its size and was left out")
            return _WorkerEnd(file, "the decoder made no progress for a long time and was stopped")
        finally:
            processes.stop(process)
            await process.wait()
        if code == 0:
            return _WorkerEnd(file, report=report)
        crash = "made the decoder crash" if file is not None else "The decoder crashed before it read a file."
        return _WorkerEnd(file, crash)

    def _public_reason(self, reason: str, job: Job) -> str:
        """Why a job failed, without paths of this machine. The full reason goes to the server's log."""
        _log.warning("job %s: %s", job.id, reason)
        private = [*map(str, job.files), self.library, str(Path(self.library).resolve())]
        return without_paths(as_sentence(reason), private) or "Adding failed. The server's log says why."

    async def _change(self, job: Job, **values: Any) -> None:
        for name, value in values.items():
            setattr(job, name, value)
        job.version += 1
        async with self._changed:
            self._changed.notify_all()


def _public_report(report: Mapping[str, Any], skipped: Mapping[VideoFile, str]) -> dict[str, Any]:
    """What became of all files: the last worker's report, and the files that ended the workers before it."""
    counts = {name: report.get(name, 0) for name in ("added", "unchanged", "moved")}
    failed = {video_path(path): reason for path, reason in report.get("failed", {}).items()} | {**skipped}
    damaged = {video_path(path): reason for path, reason in report.get("damaged", {}).items()}
    return {**counts, "failed": _by_name(failed), "damaged": _by_name(damaged)}


def _by_name(files: Mapping[VideoFile, str]) -> dict[str, str]:
    """Reasons by file name. Files of one name in several folders are numbered, so that each is counted.

    What is not text in a name is escaped, because such names cannot be sent.
    """
    reasons: dict[str, str] = {}
    names: Counter[str] = Counter()
    for path, reason in files.items():
        name = printable(path.name)
        names[name] += 1
        reasons[name if names[name] == 1 else f"{name} ({names[name]})"] = reason
    return reasons


def _longest(file: VideoFile) -> float:
    """Seconds that adding a file may take: four times as long as decoding it may."""
    try:
        return 4 * longest_decoding(file.stat().st_size)
    except (OSError, UserError):  # the worker says what is wrong with it
        return PATIENCE
