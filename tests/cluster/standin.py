"""As much of Ray as asking shards needs, in one process: actors that can be killed and come back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from prvr import __version__
from prvr.cluster.hedging import Shards
from prvr.cluster.searching import ClusterSearcher
from prvr.cluster.shards import Shard
from prvr.library import Library


class Gone(Exception):
    """What a killed actor answers."""


@dataclass(frozen=True, eq=False)
class Call:
    """Stands for a reference to an answer."""

    actor: Actor
    method: str
    given: tuple[Any, ...] = ()

    def remote(self, *given: Any) -> Call:
        return Call(self.actor, self.method, given)


@dataclass
class Actor:
    """Stands for a handle."""

    shard: Shard
    dead: bool = False
    stopped: bool = False  # neither answers nor fails
    answered: int = 0
    told: int = 0  # bytes of its answers

    def __getattr__(self, name: str) -> Call:
        return Call(self, name)


class Ray:
    """Everything is answered at once, where it is answered. Time passes only when nobody answers."""

    def wait(self, answers: list[Call], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Call], Any]:
        ready = [answer for answer in answers if not answer.actor.stopped]
        if not ready and timeout:
            time.sleep(timeout)
        return ready[:num_returns], answers

    def get(self, answer: Call, timeout: float | None = None) -> Any:
        if answer.actor.dead:
            raise Gone
        found = getattr(answer.actor.shard, answer.method)(*answer.given)
        if answer.method == "answer":
            answer.actor.answered += 1
            answer.actor.told += found.bytes
        return found


def actors(library: Library, shards: int, replicas: int = 1) -> list[list[Actor]]:
    opening = (str(library.folder), __version__)
    return [[Actor(Shard(*opening, number, shards)) for _ in range(replicas)] for number in range(shards)]


def searcher(library: Library, made: list[list[Actor]], patience: float = 10.0) -> ClusterSearcher:
    return ClusterSearcher(library, Shards(Ray(), made, patience))
