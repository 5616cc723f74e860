"""A real Ray cluster of several nodes on this machine, and what is compared of two lakes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from prvr.library import Library


class Nodes:
    """A head, by default without work, and nodes of one CPU that come and go."""

    def __init__(self, nodes: int, head_cpus: int = 0):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": head_cpus, "object_store_memory": 200 << 20, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=200 << 20)

    def kill(self) -> None:
        """Kill a node with everything on it."""
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)

    def workers(self, name: str) -> list[int]:
        """Processes that the nodes started and whose title begins with ``name``."""
        everywhere = [self.cluster.head_node, *self.nodes]
        raylets = {process.process.pid for node in everywhere for process in node.all_processes["raylet"]}
        found = []
        for place in Path("/proc").iterdir():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in raylets and (place / "cmdline").read_bytes().startswith(name.encode()):
                    found.append(int(place.name))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def shutdown(self) -> None:
        self.cluster.shutdown()


def wait_until(holds: Callable[[], bool], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def require_same(found: Library, expected: Library) -> None:
    """The same videos, each once, with bitwise the same sections, and no other sections. Numbers may differ."""

    def facts(lib: Library) -> dict[Path, dict[str, Any]]:
        return {video.path: {**asdict(video), "id": 0, "added": 0} for video in lib.videos()}

    assert len(found.videos()) == len(expected.videos())
    assert facts(found) == facts(expected)
    one, other = found.snapshot(), expected.snapshot()
    by_path = {video.path: number for number, video in other.videos.items()}
    for track, sections in one.tracks.items():
        for number, video in one.videos.items():
            pairs = zip(sections.sections_of(number), other.tracks[track].sections_of(by_path[video.path]), strict=True)
            for mine, theirs in pairs:
                assert (mine.about, mine.tokens, mine.arrays.keys()) == (
                    theirs.about,
                    theirs.tokens,
                    theirs.arrays.keys(),
                )
                assert all(np.array_equal(mine.arrays[name], theirs.arrays[name]) for name in mine.arrays)
        assert len(sections) == len(other.tracks[track])
    assert found.verify().ok
