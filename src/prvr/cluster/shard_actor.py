"""An actor that holds one shard of a library and scores its sections."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prvr import __version__
from prvr.cluster.encode import open_library
from prvr.cluster.partition import assign_videos, cut_sections
from prvr.library import Ids, SectionsByVideo, TrackQuery, TrackSections, absolute_path, score_queries

_GENERATIONS = 2  # of the library, that a shard can score


@dataclass(frozen=True, eq=False)
class ShardRequest:
    """Queries of one track for one shard."""

    track: str
    vectors: NDArray[np.float32]  # (Q, D)
    fusion_weights: Sequence[float]  # (Q,) λ of each query
    sections: Sequence[Ids | None]  # (Q,) numbers of the sections to score, ascending; None: all of the shard's


@dataclass(frozen=True, eq=False)
class ShardReply:
    """The fused scores of each query; None if the shard does not hold the generation that was asked for."""

    generation: int
    scores: Sequence[NDArray[np.float32]] | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the scores, which are nearly all that is sent."""
        return sum(scores.nbytes for scores in self.scores or ())


class ShardActor:
    """One shard, mapped from the storage that all nodes share. After a restart it is mapped again."""

    def __init__(self, folder: str, version: str, number: int, shards: int, threads: int = 1):
        torch.set_num_threads(threads)
        self.library = open_library(folder, version)
        self.number, self.shards = number, shards
        self.tracks: dict[int, dict[str, TrackSections]] = {}  # by generation: this shard's sections
        self._map_newest()

    def ping(self) -> int:
        """The newest generation that is held."""
        return max(self.tracks)

    def score(self, generation: int, request: ShardRequest) -> ShardReply:
        """Score the shard's sections exactly: every token of those that are asked for is read."""
        if generation not in self.tracks:
            self._map_newest()
        if generation not in self.tracks:
            return ShardReply(self.ping())
        sections = self.tracks[generation][request.track]
        single = SectionsByVideo.of(np.arange(len(sections)))  # each section by itself: scores in order of sections
        vectors = torch.tensor(request.vectors)  # a copy: arrays that arrive cannot be written to
        queries = [
            TrackQuery(vector, weight, single if numbers is None else single.of_videos(numbers), reference=numbers)
            for vector, weight, numbers in zip(vectors, request.fusion_weights, request.sections, strict=True)
        ]
        return ShardReply(generation, score_queries(queries, sections, self.library.pool))

    def _map_newest(self) -> None:
        snapshot = self.library.snapshot()
        if snapshot.generation in self.tracks:
            return
        videos = assign_videos(snapshot, self.shards)[self.number]
        cut = {name: cut_sections(sections, videos) for name, sections in snapshot.tracks.items()}
        self.tracks[snapshot.generation] = {name: sections for name, sections in cut.items() if sections is not None}
        for old in sorted(self.tracks)[:-_GENERATIONS]:
            del self.tracks[old]


def service_name(folder: Path) -> str:
    """The name of a library's service. There is one for each library."""
    return f"prvr-{hashlib.sha256(str(absolute_path(folder)).encode()).hexdigest()[:12]}"


def start_shards(ray: Any, folder: Path, shards: int, replicas: int) -> list[list[Any]]:
    """Start actors that run until ``stop_shards``, also after this process ends. They replace those started before.

    Ray restarts a killed actor, on another node if its node is gone. Replicas of a shard start on different nodes.

    Returns:
        For each shard, its replicas.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    stop_shards(ray, folder)
    nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
    threads = max(1, int(ray.cluster_resources().get("CPU", 1)) // (shards * replicas))
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(ShardActor)
    actors = []
    for number in range(shards):
        row = []
        for replica in range(replicas):
            node = NodeAffinitySchedulingStrategy(nodes[(number + replica) % len(nodes)], soft=True)
            named = actor.options(
                name=_name(folder, number, replica), namespace="prvr", lifetime="detached", scheduling_strategy=node
            )
            row.append(named.remote(str(absolute_path(folder)), __version__, number, shards, threads))
        actors.append(row)
    ray.get([each.ping.remote() for row in actors for each in row])  # raises what went wrong while they started
    return actors


def find_shards(ray: Any, folder: Path, shards: int, replicas: int) -> list[list[Any]]:
    """The actors that ``start_shards`` started, perhaps in another process."""
    return [
        [ray.get_actor(_name(folder, number, replica), namespace="prvr") for replica in range(replicas)]
        for number in range(shards)
    ]


def stop_shards(ray: Any, folder: Path) -> None:
    """Stop all actors of a library."""
    for named in ray.util.list_named_actors(all_namespaces=True):
        if named["namespace"] == "prvr" and named["name"].startswith(f"{service_name(folder)}/"):
            ray.kill(ray.get_actor(named["name"], namespace="prvr"))


def _name(folder: Path, number: int, replica: int) -> str:
    return f"{service_name(folder)}/{number}/{replica}"
