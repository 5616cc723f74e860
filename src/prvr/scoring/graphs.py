"""A search of few queries on a GPU as one graph.

The work of one query over ten thousand videos takes a GPU less time than its launches take the processor. So the
launches are recorded once for a gallery, and replayed for every further search of as many queries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from prvr.scoring.top import Top, TopKeeper

FEW = 4  # queries; more keep a GPU busy as they are
_MOST = 4  # graphs that are kept for a gallery
_WARM_UP = 2  # searches before recording, which also tune the kernel

Offer = Callable[[Tensor, TopKeeper], None]  # scores queries (Q, D) and offers their scores to a keeper


class TopGraph:
    """The recorded search of so many queries for the best k of a gallery."""

    def __init__(self, queries: Tensor, k: int, offer: Offer):
        """Record it; ``queries`` (Q, D) are searched for on the way."""
        self.asked = queries.detach().clone()
        self.lock = threading.Lock()
        stream = torch.cuda.Stream(self.asked.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.asked.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._search(k, offer)
        torch.cuda.current_stream(self.asked.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads may allocate meanwhile
            self.keeper, self.found = self._search(k, offer)

    def _search(self, k: int, offer: Offer) -> tuple[TopKeeper, Top]:
        keeper = TopKeeper(len(self.asked), k, self.asked.device)
        offer(self.asked, keeper)
        return keeper, keeper.sorted()

    def __call__(self, queries: Tensor) -> Top:
        with self.lock:
            self.asked.copy_(queries)
            self.graph.replay()
            found = Top(*(part.clone() for part in self.found))
            self.keeper.require_finite()
            return found


@dataclass(eq=False)
class TopGraphs:
    """The recorded searches of one gallery. The second search of a kind is recorded, unless that fails."""

    made: dict[tuple[int, int], TopGraph | None] = field(default_factory=dict)  # by number of queries and k
    failed: set[tuple[int, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, queries: Tensor, k: int, offer: Offer) -> TopGraph | None:
        """The graph for such queries, recorded if they were searched for once before; None: search without one."""
        kind = (len(queries), k)
        with self.lock:
            if kind not in self.made:
                if len(self.made) < _MOST:
                    self.made[kind] = None
                return None
            if self.made[kind] is None and kind not in self.failed:
                try:
                    self.made[kind] = TopGraph(queries, k, offer)
                except RuntimeError:  # something in this search cannot be recorded
                    self.failed.add(kind)
            return self.made[kind]
