"""All replicas of all shards: who is asked, and who else when the answer is late.

One replica of each shard is asked. As soon as its answer takes longer than nearly all recent ones did, another replica
is asked too; the first answer counts. A replica that still owes an answer is asked last, and one that owes it for
longer than the limit is not asked again before it shows that it is there.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from prvr.cluster.parts import Need, Reply
from prvr.library.search.asking import Question

_log = logging.getLogger("prvr.cluster")
_RECENT = 256  # answers whose times are remembered
_ENOUGH = 20  # of them, before they say what is late
_LATE = 0.95  # an answer is late when it takes longer than this share of recent ones did
_SOONEST = 0.05  # seconds before which no answer is late: asking twice for everything would help nobody


class Replica:
    """A handle, and whether it answers. One that failed is trusted again when it answers a ping."""

    def __init__(self, ray: Any, actor: Any):
        self.ray, self.actor = ray, actor
        self._ping: Any = None
        self._owed: dict[Any, float] = {}  # answers that nobody waits for any more, and when they were due

    def doubt(self) -> None:
        self._ping = self.actor.ping.remote()

    def owes(self, answer: Any, due: float) -> None:
        """Somebody else was faster."""
        self._owed[answer] = due

    @property
    def late(self) -> bool:
        """Whether it still owes an answer."""
        if self._owed:
            done, _ = self.ray.wait(list(self._owed), num_returns=len(self._owed), timeout=0)
            for answer in done:
                del self._owed[answer]
        return bool(self._owed)

    @property
    def trusted(self) -> bool:
        if self._ping is None:
            if not self.late or min(self._owed.values()) > time.monotonic():
                return True
            self._owed.clear()
            self.doubt()
        done, _ = self.ray.wait([self._ping], timeout=0)
        if not done:
            return False
        try:
            self.ray.get(self._ping)
        except Exception:  # still away: ask again
            self.doubt()
            return False
        self._ping = None
        return True


class _Asking:
    """One shard during one question."""

    def __init__(self, row: Sequence[Replica], turn: int, before: Replica | None):
        """``before``: who answered about the same question; its scores are there still."""
        order = [row[(turn + number) % len(row)] for number in range(len(row))]
        self.left = sorted(order, key=lambda replica: (replica.late, replica is not before))  # stable: turns count
        self.began = time.monotonic()
        self.waiting: dict[Any, tuple[Replica, float]] = {}  # by answer: who, and when it is due
        self.hedge_at = np.inf  # when the next replica is asked as well

    @property
    def until(self) -> float:
        """When something has to be decided."""
        return min([self.hedge_at, *(due for _, due in self.waiting.values())])


class Shards:
    """Ask every shard; ``patience``: seconds after which a replica counts as silent."""

    def __init__(self, ray: Any, actors: Sequence[Sequence[Any]], patience: float = 10.0):
        self.ray, self.patience = ray, patience
        self.replicas = [[Replica(ray, actor) for actor in row] for row in actors]
        self.hedged = 0  # how often a second replica was asked because the first was late
        self._turn = 0
        self._took: deque[float] = deque(maxlen=_RECENT)
        self._late = self.late_after
        self._before: tuple[str, dict[int, Replica]] = ("", {})  # who answered about the latest question

    def __len__(self) -> int:
        return len(self.replicas)

    def silent(self) -> frozenset[int]:
        """Shards of which no replica is trusted to answer now."""
        return frozenset(n for n, row in enumerate(self.replicas) if not any(replica.trusted for replica in row))

    @property
    def late_after(self) -> float:
        """Seconds. While few answers are known: a tenth of the limit."""
        usual = float(np.quantile(self._took, _LATE)) if len(self._took) >= _ENOUGH else self.patience / 10
        return min(max(_SOONEST, usual), self.patience)

    def ask(
        self, numbers: Sequence[int], generation: int, key: str, question: Question, needs: Sequence[Need]
    ) -> dict[int, Reply]:
        """Replies of these shards (``Shard.answer``); one is missing where no replica of it answers."""
        self._turn += 1
        self._late = self.late_after
        if self._before[0] != key:
            self._before = (key, {})
        asked, before = (generation, key, question, needs), self._before[1]
        replies: dict[int, Reply] = {}
        asking = {number: _Asking(self.replicas[number], self._turn, before.get(number)) for number in numbers}
        for each in asking.values():
            self._ask_next(each, asked)
        while open_ones := {number: each for number, each in asking.items() if each.waiting}:
            of = {answer: number for number, each in open_ones.items() for answer in each.waiting}
            soon = min(each.until for each in open_ones.values()) - time.monotonic()
            if self.ray.wait(list(of), num_returns=1, timeout=max(0.0, soon))[0]:
                done, _ = self.ray.wait(list(of), num_returns=len(of), timeout=0)  # all that have come meanwhile
            else:
                done = []
            for answer in done:
                self._take(of[answer], asking[of[answer]], answer, replies, asked)
            for number, each in asking.items():
                self._look_at_the_clock(number, each, asked)
        return replies

    def _ask_next(self, each: _Asking, asked: tuple[Any, ...]) -> bool:
        each.hedge_at = np.inf
        while each.left:
            replica = each.left.pop(0)
            if replica.trusted:
                answer = replica.actor.answer.remote(*asked)
                each.waiting[answer] = (replica, time.monotonic() + self.patience)
                if each.left:
                    each.hedge_at = time.monotonic() + self._late
                return True
        return False

    def _take(self, number: int, each: _Asking, answer: Any, replies: dict[int, Reply], asked: tuple[Any, ...]) -> None:
        """An answer has come, or the news that none will."""
        if answer not in each.waiting:
            return
        replica, _ = each.waiting.pop(answer)
        try:
            replies[number] = self.ray.get(answer, timeout=self.patience)
        except Exception as problem:  # killed, unreachable, or its storage is gone
            self._give_up(number, replica, problem)
            if not each.waiting:
                self._ask_next(each, asked)
            return
        if number not in self._before[1]:  # what more is asked about the same question is quick
            # From the first asking on, also where a second was faster: else what is late would come sooner and sooner.
            self._took.append(time.monotonic() - each.began)
        self._before[1][number] = replica
        for owed, (slow, due) in each.waiting.items():
            slow.owes(owed, due)
        each.waiting.clear()

    def _look_at_the_clock(self, number: int, each: _Asking, asked: tuple[Any, ...]) -> None:
        now = time.monotonic()
        for answer, (replica, due) in list(each.waiting.items()):
            if due <= now:
                del each.waiting[answer]
                self._give_up(number, replica, TimeoutError())
                if not each.waiting:
                    self._ask_next(each, asked)
        if each.waiting and each.hedge_at <= now:
            self.hedged += self._ask_next(each, asked)

    def _give_up(self, number: int, replica: Replica, problem: Exception) -> None:
        _log.warning("shard %d: %s", number, type(problem).__name__)
        replica.doubt()
