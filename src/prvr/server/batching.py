"""Searches that arrive while one pass runs share the next one.

Nobody waits for company: a lone search starts at once. While it runs, others gather, and the vectors of the library are
then read once for all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from prvr.library import SearchOptions, SearchResult
from prvr.server.metrics import Metrics
from prvr.server.problems import Problem

Asked = tuple[str, SearchOptions, "asyncio.Future[SearchResult]"]


class Searcher(Protocol):
    """A library, or somebody who asks the shards of one."""

    def search_many(self, queries: Sequence[str], options: Sequence[SearchOptions]) -> list[SearchResult]: ...


class Batcher:
    """The one place from which the library is searched."""

    def __init__(self, searcher: Searcher, metrics: Metrics, batch: int, waiting: int):
        self.searcher, self.metrics, self.batch, self.most = searcher, metrics, batch, waiting
        self._queue: deque[Asked] = deque()
        self._running: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "prvr-search")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def search(self, query: str, options: SearchOptions) -> SearchResult:
        if len(self._queue) >= self.most:
            raise Problem(503, "too many searches are waiting", "try again in a moment", {"Retry-After": "1"})
        future = asyncio.get_running_loop().create_future()
        self._queue.append((query, options, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """Answer what waits, then stop."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch: list[Asked] = []
            while self._queue and len(batch) < self.batch:
                asked = self._queue.popleft()
                if not asked[2].done():  # the client may have gone away
                    batch.append(asked)
            if not batch:
                return
            found = await loop.run_in_executor(self._thread, self._together, batch)
            for (_, _, future), answer in zip(batch, found, strict=True):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _together(self, batch: list[Asked]) -> list[SearchResult | Exception]:
        began = time.perf_counter()
        try:
            found = self.searcher.search_many([query for query, _, _ in batch], [options for _, options, _ in batch])
            self.metrics.batch(len(batch), time.perf_counter() - began)
            return [*found]
        except Exception as problem:  # handed to whoever asked; one bad query must not fail its neighbours
            if len(batch) == 1:
                return [problem]
            return [answer for asked in batch for answer in self._together([asked])]
