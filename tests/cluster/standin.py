"""As much of Ray as asking shards needs, in one process: actors that can be killed and come back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from prvr import __version__
from prvr.cluster.replicas import Shards
from prvr.cluster.search import ClusterSearcher
from prvr.cluster.shard_actor import ShardActor
from prvr.library import Library


class ActorDied(Exception):
    """Raised by calls of a killed actor."""


@dataclass(frozen=True, eq=False)
class Call:
    """Stands for a reference to an answer."""

    actor: Actor
    method: str
    arguments: tuple[Any, ...] = ()

    def remote(self, *arguments: Any) -> Call:
        return Call(self.actor, self.method, arguments)


@dataclass
class Actor:
    """Stands for a handle."""

    shard: ShardActor
    dead: bool = False
    stopped: bool = False  # neither answers nor fails
    answered: int = 0
    sent: int = 0  # bytes of its scores

    def __getattr__(self, name: str) -> Call:
        return Call(self, name)


class Ray:
    """Answers are computed when they are fetched. Time passes only while nobody answers."""

    def wait(self, answers: list[Call], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Call], Any]:
        ready = [answer for answer in answers if not answer.actor.stopped]
        if not ready and timeout:
            time.sleep(timeout)
        return ready[:num_returns], answers

    def get(self, answer: Call, timeout: float | None = None) -> Any:
        if answer.actor.dead:
            raise ActorDied
        reply = getattr(answer.actor.shard, answer.method)(*answer.arguments)
        if answer.method == "score":
            answer.actor.answered += 1
            answer.actor.sent += reply.bytes
        return reply


def start_actors(library: Library, shards: int, replicas: int = 1) -> list[list[Actor]]:
    opening = (str(library.folder), __version__)
    return [[Actor(ShardActor(*opening, number, shards)) for _ in range(replicas)] for number in range(shards)]


def searcher(library: Library, actors: list[list[Actor]], patience: float = 10.0) -> ClusterSearcher:
    return ClusterSearcher(library, Shards(Ray(), actors, patience))
