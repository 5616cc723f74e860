"""Questions that arrive while passes run share the next one.

Nobody waits for company: a lone question is worked on at once. While that goes on others gather, and the vectors of the
library are then read once for all of them. Two passes run at a time, since half of one is arithmetic that any core can
do and the other half Python, which holds all others up: while one reads vectors, the other writes answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from prvr.server.metrics import Metrics
from prvr.server.problems import Problem

Question = TypeVar("Question")
Answer = TypeVar("Answer")
LANES = 2  # passes at a time
Together = Callable[[Sequence[Question]], Sequence[Answer]]


class Batcher(Generic[Question, Answer]):
    """The one place from which the library is searched; ``together`` answers several questions, in their order."""

    def __init__(self, together: Together[Question, Answer], metrics: Metrics, batch: int, waiting: int):
        self.together, self.metrics, self.batch, self.most = together, metrics, batch, waiting
        self._queue: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(LANES, "prvr-search")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def ask(self, question: Question) -> Answer:
        if len(self._queue) >= self.most:
            raise Problem(503, "too many searches are waiting", "try again in a moment", {"Retry-After": "1"})
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append((question, future))
        if len(self._lanes) < LANES:
            lane = asyncio.create_task(self._work())
            self._lanes.add(lane)
            lane.add_done_callback(self._lanes.discard)
        return await future

    async def close(self) -> None:
        """Answer what waits, then stop."""
        while self._lanes:
            await asyncio.gather(*self._lanes, return_exceptions=True)
        self._threads.shutdown()

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
            found = await loop.run_in_executor(self._threads, self._pass, [question for question, _ in batch])
            for (_, future), answer in zip(batch, found, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _pass(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        began = time.perf_counter()
        try:
            found = [*self.together(questions)]
            self.metrics.batch(len(questions), time.perf_counter() - began)
            return [*found]
        except Exception as problem:  # handed to whoever asked; one bad question must not fail its neighbours
            if len(questions) == 1:
                return [problem]
            return [answer for question in questions for answer in self._pass([question])]
