"""A shard: an actor that holds a part of a library, scores it, and tells of its scores what is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from prvr import __version__
from prvr.cluster.encoding import opened_library
from prvr.cluster.partition import assign, part_of
from prvr.cluster.parts import Need, Part, Reply
from prvr.library.ingest.files import absolute
from prvr.library.search.asking import Question
from prvr.library.store.snapshot import Snapshot

_HELD = 2  # generations of the library that a shard can answer for
_SEEN = 2  # questions whose scores are kept: more may be asked about them


class Shard:
    """One part of a library, mapped from the storage that all nodes see. A restarted one maps it again."""

    def __init__(self, folder: str, version: str, number: int, shards: int, threads: int = 1):
        torch.set_num_threads(threads)
        self.library = opened_library(folder, version)
        self.number, self.shards = number, shards
        self.held: dict[int, Snapshot] = {}
        self._seen: dict[tuple[int, str], Part] = {}
        self._take()

    def ping(self) -> int:
        """The generation that is held."""
        return max(self.held)

    def answer(self, generation: int, key: str, question: Question, needs: Sequence[Need]) -> Reply:
        """Exact: every token of the part (or of its candidates) is looked at, once for all needs of a ``key``."""
        if generation not in self.held:
            self._take()
        whole = self.held.get(generation)
        if whole is None:
            return Reply(max(self.held))
        if (generation, key) not in self._seen:
            for old in list(self._seen)[: 1 - _SEEN]:
                del self._seen[old]
            self._seen[generation, key] = Part(whole, question)
        return Reply(generation, [need.look(self._seen[generation, key]) for need in needs])

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
