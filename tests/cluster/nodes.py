"""A real Ray cluster of several nodes on this machine, and the processes on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Nodes:
    """A head without work, and nodes that come and go."""

    def __init__(self, nodes: int):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": 200 << 20, "include_dashboard": False},
        )
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=200 << 20)

    def kill(self) -> str:
        """Kill a node with everything on it; returns its id."""
        node = self.nodes.pop()
        self.cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)


def processes_of(nodes: Nodes, name: str) -> list[int]:
    """Workers that this cluster's nodes started and that do what ``name`` says."""
    everywhere = [nodes.cluster.head_node, *nodes.nodes]
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


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)
