"""As much of Ray as asking shards needs, in one process: actors that can be killed and come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prvr import __version__
from prvr.cluster.searching import ClusterSearcher
from prvr.cluster.shards import Shard, Shards
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
    answered: int = 0

    def __getattr__(self, name: str) -> Call:
        return Call(self, name)


class Ray:
    """Everything is answered at once, where it is answered."""

    def wait(self, answers: list[Call], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Call], Any]:
        return answers[:num_returns], answers[num_returns:]

    def get(self, answer: Call, timeout: float | None = None) -> Any:
        if answer.actor.dead:
            raise Gone
        answer.actor.answered += answer.method == "score"
        return getattr(answer.actor.shard, answer.method)(*answer.given)


def actors(library: Library, shards: int, replicas: int = 1) -> list[list[Actor]]:
    opening = (str(library.folder), __version__)
    return [[Actor(Shard(*opening, number, shards)) for _ in range(replicas)] for number in range(shards)]


def searcher(library: Library, made: list[list[Actor]]) -> ClusterSearcher:
    return ClusterSearcher(library, Shards(Ray(), made))
