"""Collect searches that arrive while the library is being scored, and score them together in the next pass.

A single search starts at once. Searches that arrive during a pass wait for its end; the vectors of the library are then
read once for all of them. Clients that were answered together tend to search again together. So after a pass with
several searches, the next pass waits briefly for the same number: a pass for the first of them alone would delay the
others.
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

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_SHARED_BATCH = 3  # after a batch of this many requests or more, the next pass waits for as many
_WAIT_SHARE = 1 / 6  # longest wait, as a share of the time that the last pass took


class Batcher(Generic[_Request, _Response]):
    """Collects requests and answers several in one call, on a thread of its own.

    Args:
        answer_batch: answers several requests, in their order.
        metrics: counts batches.
        batch_size: requests in one batch, at most.
        max_waiting: requests that may wait; more are refused with status 503.
    """

    def __init__(
        self,
        answer_batch: Callable[[Sequence[_Request]], Sequence[_Response]],
        metrics: Metrics,
        batch_size: int,
        max_waiting: int,
    ):
        self.answer_batch, self.metrics = answer_batch, metrics
        self.batch_size, self.max_waiting = batch_size, max_waiting
        self._queue: deque[tuple[_Request, asyncio.Future[_Response]]] = deque()
        self._enough = asyncio.Event()
        self._expected = 0  # requests that the next pass waits for
        self._running: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "prvr-search")

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._queue)

    async def submit(self, request: _Request) -> _Response:
        """Answer a request, together with others that wait."""
        if len(self._queue) >= self.max_waiting:
            raise Problem(503, "Too many searches are waiting.", "Try again in a moment.", {"Retry-After": "1"})
        future: asyncio.Future[_Response] = asyncio.get_running_loop().create_future()
        self._queue.append((request, future))
        if len(self._queue) >= self._expected:
            self._enough.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Answer the requests that wait, then stop."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch: list[tuple[_Request, asyncio.Future[_Response]]] = []
            while self._queue and len(batch) < self.batch_size:
                request, future = self._queue.popleft()
                if not future.done():  # the client may have gone away
                    batch.append((request, future))
            if not batch:
                return
            began = time.perf_counter()
            responses = await loop.run_in_executor(self._thread, self._answer, [request for request, _ in batch])
            for (_, future), response in zip(batch, responses, strict=True):
                if future.done():
                    continue
                if isinstance(response, Exception):
                    future.set_exception(response)
                else:
                    future.set_result(response)
            if len(batch) >= _SHARED_BATCH:
                await self._wait_for(len(batch), _WAIT_SHARE * (time.perf_counter() - began))

    async def _wait_for(self, count: int, seconds: float) -> None:
        """Wait until this many requests are in the queue, but no longer than the given time."""
        self._expected = count
        self._enough.clear()
        if len(self._queue) < count:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._enough.wait(), seconds)
        self._expected = 0

    def _answer(self, requests: Sequence[_Request]) -> list[_Response | Exception]:
        """Answer a batch. If that fails, answer each request alone, so that only the bad one fails."""
        began = time.perf_counter()
        try:
            responses = [*self.answer_batch(requests)]
            self.metrics.batch(len(requests), time.perf_counter() - began)
            return [*responses]
        except Exception as problem:  # raised again for the client that sent the request
            if len(requests) == 1:
                return [problem]
            return [response for request in requests for response in self._answer([request])]
