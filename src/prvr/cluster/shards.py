"""A shard: an actor that holds a part of a library and scores it, and all replicas of all shards together."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prvr import __version__
from prvr.cluster.encoding import opened_library
from prvr.cluster.partition import assign, part_of
from prvr.library.snapshot import Snapshot
from prvr.library.sources import absolute

Scores = NDArray[np.float32]
_log = logging.getLogger("prvr.cluster")
_HELD = 2  # generations of the library that a shard can answer for


@dataclass(frozen=True)
class Reply:
    """Both parts of the score of every section of a shard, (Q, S); None where it holds another generation."""

    generation: int
    base: Scores | None = None
    trace: Scores | None = None


class Shard:
    """One part of a library, mapped from the storage that all nodes see. A restarted one maps it again."""

    def __init__(self, folder: str, version: str, number: int, shards: int, threads: int = 1):
        torch.set_num_threads(threads)
        self.library = opened_library(folder, version)
        self.number, self.shards = number, shards
        self.held: dict[int, Snapshot] = {}
        self._take()

    def ping(self) -> int:
        """The generation that is held."""
        return max(self.held)

    def score(self, generation: int, track: str, queries: Scores) -> Reply:
        """Exact scores of (Q, D) queries: every stored token of the part is looked at."""
        if generation not in self.held:
            self._take()
        part = self.held.get(generation)
        if part is None:
            return Reply(max(self.held))
        if track not in part.tracks:
            nothing = np.zeros((len(queries), 0), np.float32)
            return Reply(generation, nothing, nothing)
        found = part.tracks[track].score(torch.from_numpy(queries.copy()))
        return Reply(generation, found.base.numpy(), found.trace.numpy())

    def _take(self) -> None:
        whole = self.library.snapshot()
        if whole.generation not in self.held:
            self.held[whole.generation] = part_of(whole, assign(whole, self.shards)[self.number])
            for old in sorted(self.held)[:-_HELD]:
                del self.held[old]


def service_name(folder: Path) -> str:
    """One service for one library."""
    return f"prvr-{hashlib.sha256(str(absolute(folder)).encode()).hexdigest()[:12]}"


def start_shards(ray: Any, folder: Path, shards: int, replicas: int) -> list[list[Any]]:
    """Actors that outlive whoever started them, until ``stop_shards``; those of an earlier start are replaced.

    Ray starts a killed one again, elsewhere if its node is gone. Replicas of a shard begin on different nodes.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    stop_shards(ray, folder)
    nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
    threads = max(1, int(ray.cluster_resources().get("CPU", 1)) // (shards * replicas))
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(Shard)
    made = []
    for number in range(shards):
        row = []
        for replica in range(replicas):
            place = NodeAffinitySchedulingStrategy(nodes[(number + replica) % len(nodes)], soft=True)
            named = actor.options(
                name=_name(folder, number, replica), namespace="prvr", lifetime="detached", scheduling_strategy=place
            )
            row.append(named.remote(str(absolute(folder)), __version__, number, shards, threads))
        made.append(row)
    ray.get([each.ping.remote() for row in made for each in row])  # what is wrong is said before anybody asks
    return made


def find_shards(ray: Any, folder: Path, shards: int, replicas: int) -> list[list[Any]]:
    """Those that run already, for whoever asks them."""
    return [
        [ray.get_actor(_name(folder, number, replica), namespace="prvr") for replica in range(replicas)]
        for number in range(shards)
    ]


def stop_shards(ray: Any, folder: Path) -> None:
    for named in ray.util.list_named_actors(all_namespaces=True):
        if named["namespace"] == "prvr" and named["name"].startswith(f"{service_name(folder)}/"):
            ray.kill(ray.get_actor(named["name"], namespace="prvr"))


def _name(folder: Path, number: int, replica: int) -> str:
    return f"{service_name(folder)}/{number}/{replica}"


class Replica:
    """A handle, and whether it answers. One that failed is trusted again when it answers a ping."""

    def __init__(self, ray: Any, actor: Any):
        self.ray, self.actor = ray, actor
        self._ping: Any = None

    def doubt(self) -> None:
        self._ping = self.actor.ping.remote()

    @property
    def trusted(self) -> bool:
        if self._ping is None:
            return True
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


class Shards:
    """Ask every shard; of each, one replica after the other until one answers."""

    def __init__(self, ray: Any, actors: Sequence[Sequence[Any]], patience: float = 10.0):
        self.ray, self.patience = ray, patience
        self.replicas = [[Replica(ray, actor) for actor in row] for row in actors]
        self._turn = 0

    def __len__(self) -> int:
        return len(self.replicas)

    def silent(self) -> frozenset[int]:
        """Shards of which no replica is trusted to answer now."""
        return frozenset(n for n, row in enumerate(self.replicas) if not any(replica.trusted for replica in row))

    def score(self, numbers: Sequence[int], *asked: Any) -> dict[int, Reply]:
        """Replies of these shards; one is missing where no replica of it answers."""
        self._turn += 1
        replies: dict[int, Reply] = {}
        left = [[row[(self._turn + n) % len(row)] for n in range(len(row))] for row in self.replicas]
        waiting: dict[Any, tuple[int, Replica, float]] = {}

        def ask(number: int) -> None:
            while left[number]:
                replica = left[number].pop(0)
                if replica.trusted:
                    waiting[replica.actor.score.remote(*asked)] = (number, replica, time.monotonic() + self.patience)
                    return

        for number in numbers:
            ask(number)
        while waiting:
            until = min(deadline for _, _, deadline in waiting.values())
            done, _ = self.ray.wait(list(waiting), num_returns=1, timeout=max(0.0, until - time.monotonic()))
            late = [answer for answer, (_, _, deadline) in waiting.items() if deadline <= time.monotonic()]
            for answer in {*done, *late}:
                number, replica, _ = waiting.pop(answer)
                try:
                    replies[number] = self.ray.get(answer, timeout=0)
                except Exception as problem:  # killed, unreachable, too slow, or its storage is gone
                    _log.warning("shard %d: %s", number, type(problem).__name__)
                    replica.doubt()
                    ask(number)
        return replies
