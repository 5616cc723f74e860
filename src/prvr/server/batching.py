"""Searches that arrive while a pass over the library runs share the next pass.

A single search starts at once. Others that arrive meanwhile are collected, and the vectors of the library are then
read once for all of them. Clients that were answered together tend to search again together. So after a pass with
several searches, the next pass waits a moment for as many: a pass for the first of them alone would delay the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from prvr.server.metrics import Metrics
from prvr.server.problems import Problem

Question = TypeVar("Question")
Answer = TypeVar("Answer")
SEVERAL = 3  # searches in a pass from which on the next pass waits
SHARE = 1 / 6  # longest wait, as a share of the time that the last pass took
Together = Callable[[Sequence[Question]], Sequence[Answer]]


class Batcher(Generic[Question, Answer]):
    """Collects questions and answers several at once.

    Args:
        together: answers several questions, in their order.
        metrics: counts passes.
        batch: questions in one pass, at most.
        waiting: questions that may wait; more are refused.
    """

    def __init__(self, together: Together[Question, Answer], metrics: Metrics, batch: int, waiting: int):
        self.together, self.metrics, self.batch, self.most = together, metrics, batch, waiting
        self._queue: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._enough = asyncio.Event()
        self._expected = 0  # questions that the next pass waits for
        self._running: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "prvr-search")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def ask(self, question: Question) -> Answer:
        if len(self._queue) >= self.most:
            raise Problem(503, "too many searches are waiting", "try again in a moment", {"Retry-After": "1"})
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append((question, future))
        if len(self._queue) >= self._expected:
            self._enough.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """Answer the questions that wait, then stop."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch: list[tuple[Question, asyncio.Future[Answer]]] = []
            while self._queue and len(batch) < self.batch:
                question, future = self._queue.popleft()
                if not future.done():  # the client may have gone away
                    batch.append((question, future))
            if not batch:
                return
            began = time.perf_counter()
            found = await loop.run_in_executor(self._thread, self._pass, [question for question, _ in batch])
            for (_, future), answer in zip(batch, found, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
            if len(batch) >= SEVERAL:
                await self._gather(len(batch), SHARE * (time.perf_counter() - began))

    async def _gather(self, count: int, seconds: float) -> None:
        """Wait until this many questions are there, or until the time is over."""
        self._expected = count
        self._enough.clear()
        if len(self._queue) < count:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._enough.wait(), seconds)
        self._expected = 0

    def _pass(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        began = time.perf_counter()
        try:
            found = [*self.together(questions)]
            self.metrics.batch(len(questions), time.perf_counter() - began)
            return [*found]
        except Exception as problem:  # passed on to its client; one bad question must not fail the others
            if len(questions) == 1:
                return [problem]
            return [answer for question in questions for answer in self._pass([question])]
