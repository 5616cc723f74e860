"""Ask one replica of every shard, and another one if the answer is late.

A replica is late when its answer takes longer than nearly all recent answers did. The next replica is then asked too,
and the first answer counts. A replica that still owes an answer is asked last. One that owes it for longer than the
limit is not asked again until it answers a ping.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prvr.cluster.shard_actor import ShardReply, ShardRequest

_log = logging.getLogger("prvr.cluster")
_RECENT = 256  # answers whose times are remembered
_ENOUGH = 20  # of them, before they decide what is late
_LATE = 0.95  # an answer is late when it takes longer than this share of recent ones did
_SOONEST = 0.05  # seconds; no answer is late before that


class Replica:
    """An actor, and whether it answers. One that failed is trusted again when it answers a ping."""

    def __init__(self, ray: Any, actor: Any):
        self.ray, self.actor = ray, actor
        self._ping: Any = None
        self._owed: dict[Any, float] = {}  # late answers that are no longer needed, and when they were due

    def doubt(self) -> None:
        """Do not ask it again before it answers a ping."""
        self._ping = self.actor.ping.remote()

    def note_owed(self, answer: Any, due: float) -> None:
        """Another replica was faster, so this answer is no longer needed."""
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
        except Exception:  # still away
            self.doubt()
            return False
        self._ping = None
        return True


class _ShardCall:
    """One request to one shard, and who has been asked."""

    def __init__(self, replicas: Sequence[Replica], turn: int, arguments: tuple[int, ShardRequest]):
        order = [replicas[(turn + number) % len(replicas)] for number in range(len(replicas))]
        self.left = sorted(order, key=lambda replica: replica.late)  # stable: replicas take turns
        self.arguments = arguments
        self.began = time.monotonic()
        self.waiting: dict[Any, tuple[Replica, float]] = {}  # by answer: the replica, and when the answer is due
        self.hedge_at = np.inf  # when the next replica is asked as well

    @property
    def next_check(self) -> float:
        return min([self.hedge_at, *(due for _, due in self.waiting.values())])


class Shards:
    """All replicas of all shards. ``patience``: seconds after which a replica counts as silent."""

    def __init__(self, ray: Any, actors: Sequence[Sequence[Any]], patience: float = 10.0):
        self.ray, self.patience = ray, patience
        self.replicas = [[Replica(ray, actor) for actor in row] for row in actors]
        self.hedged = 0  # how often a second replica was asked because the first was late
        self.answer_seconds: deque[float] = deque(maxlen=_RECENT)
        self._turn = 0

    def __len__(self) -> int:
        return len(self.replicas)

    def silent(self) -> frozenset[int]:
        """The shards of which no replica is expected to answer."""
        return frozenset(n for n, row in enumerate(self.replicas) if not any(replica.trusted for replica in row))

    @property
    def late_after(self) -> float:
        """Seconds after which an answer is late; a tenth of the limit until enough answers are known."""
        enough = len(self.answer_seconds) >= _ENOUGH
        usual = float(np.quantile(self.answer_seconds, _LATE)) if enough else self.patience / 10
        return min(max(_SOONEST, usual), self.patience)

    def ask(self, generation: int, requests: Mapping[int, ShardRequest]) -> dict[int, ShardReply]:
        """Send each shard its request. Shards of which no replica answers are left out of the replies."""
        self._turn += 1
        late_after = self.late_after
        replies: dict[int, ShardReply] = {}
        calls = {
            number: _ShardCall(self.replicas[number], self._turn, (generation, request))
            for number, request in requests.items()
        }
        for call in calls.values():
            self._ask_next(call, late_after)
        while waiting := {answer: number for number, call in calls.items() for answer in call.waiting}:
            soon = min(calls[number].next_check for number in waiting.values()) - time.monotonic()
            done, _ = self.ray.wait(list(waiting), num_returns=1, timeout=max(0.0, soon))
            if done:
                done, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)  # all that are ready
            for answer in done:
                number = waiting[answer]
                reply = self._receive(number, calls[number], answer, late_after)
                if reply is not None:
                    replies[number] = reply
            for number, call in calls.items():
                self._check_times(number, call, late_after)
        return replies

    def _ask_next(self, call: _ShardCall, late_after: float) -> bool:
        """Ask the next replica that is trusted; returns whether there is one."""
        call.hedge_at = np.inf
        while call.left:
            replica = call.left.pop(0)
            if replica.trusted:
                answer = replica.actor.score.remote(*call.arguments)
                call.waiting[answer] = (replica, time.monotonic() + self.patience)
                if call.left:
                    call.hedge_at = time.monotonic() + late_after
                return True
        return False

    def _receive(self, number: int, call: _ShardCall, answer: Any, late_after: float) -> ShardReply | None:
        """Take an answer that has arrived; None if the replica failed."""
        if answer not in call.waiting:  # another replica of the shard answered in the same moment
            return None
        replica, _ = call.waiting.pop(answer)
        try:
            reply: ShardReply = self.ray.get(answer, timeout=self.patience)
        except Exception as problem:  # killed, unreachable, or its storage is gone
            self._give_up(number, replica, problem)
            if not call.waiting:
                self._ask_next(call, late_after)
            return None
        # Counted from the first request, even if a second replica answered; otherwise the threshold would keep falling.
        self.answer_seconds.append(time.monotonic() - call.began)
        for owed, (slow, due) in call.waiting.items():
            slow.note_owed(owed, due)
        call.waiting.clear()
        return reply

    def _check_times(self, number: int, call: _ShardCall, late_after: float) -> None:
        now = time.monotonic()
        for answer, (replica, due) in list(call.waiting.items()):
            if due <= now:
                del call.waiting[answer]
                self._give_up(number, replica, TimeoutError())
                if not call.waiting:
                    self._ask_next(call, late_after)
        if call.waiting and call.hedge_at <= now:
            self.hedged += self._ask_next(call, late_after)

    def _give_up(self, number: int, replica: Replica, problem: Exception) -> None:
        _log.warning("shard %d: %s", number, type(problem).__name__)
        replica.doubt()
