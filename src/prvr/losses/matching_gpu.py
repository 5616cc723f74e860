"""The matching of ``prvr.losses.matching`` as one Triton kernel: a program per video, without waiting for the
host.

So a training step that needs a matching can be captured in a CUDA graph. It is the same search in the same order as
the host's, and gives the same matching.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # it comes only with torch's CUDA builds for Linux
    triton = None

available = triton is not None


def solve_on_gpu(cost: Tensor, order: Tensor, counts: Tensor) -> Tensor:
    """(N, C) float64 costs, queries sorted by video (N,), queries per video (V,) → column of each query or −1, (N,)."""
    chosen = torch.full_like(order, -1)
    start = counts.cumsum(0) - counts
    lanes = triton.next_power_of_2(max(cost.shape))  # columns, and one more for each query that may stay unmatched
    _kernel[(len(counts),)](
        cost.contiguous(), order, start, counts, chosen, cost.shape[1], LANES=lanes, num_warps=1 if lanes <= 64 else 4
    )
    return chosen


def _assign(cost, order, start, counts, chosen, columns, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    video = tl.program_id(0)
    first, count = tl.load(start + video), tl.load(counts + video)
    lane = tl.arange(0, LANES)
    allowed = lane < tl.maximum(count, columns)
    owner = tl.full([LANES], -1, tl.int64)
    price = tl.zeros([LANES], tl.float64)
    owner_dual = tl.zeros([LANES], tl.float64)
    infinite = tl.full([LANES], float("inf"), tl.float64)
    nothing = tl.zeros([LANES], tl.float64)

    joining = count * 0
    while joining < count:
        dual = tl.sum(nothing, 0)
        query_dual = tl.sum(nothing, 0)
        distance = infinite
        reached = lane < 0
        way = tl.full([LANES], -1, tl.int64)
        query = joining
        column = joining * 0 - 1
        while query >= 0:
            row = tl.load(order + first + query)
            through = tl.load(cost + row * columns + lane, mask=lane < columns, other=0.0) - query_dual - price
            nearer = (through < distance) & allowed & (reached == 0)
            distance = tl.where(nearer, through, distance)
            way = tl.where(nearer, column, way)
            open_distance = tl.where(reached, infinite, distance)
            step = tl.min(open_distance, 0)
            column = tl.argmin(open_distance, 0).to(tl.int64)
            dual += step
            owner_dual = tl.where(reached, owner_dual + step, owner_dual)
            price = tl.where(reached, price - step, price)
            distance = tl.where(reached, distance, distance - step)
            here = lane == column
            query = tl.sum(tl.where(here, owner, 0), 0)
            query_dual = tl.sum(tl.where(here, owner_dual, nothing), 0)
            reached = reached | here  # the last one is free and ends the search
        turning = joining * 0 + 1
        while turning > 0:
            here = lane == column
            before = tl.sum(tl.where(here, way, 0), 0)
            giver = lane == before
            new_owner = tl.where(before < 0, joining, tl.sum(tl.where(giver, owner, 0), 0))
            new_dual = tl.where(before < 0, dual, tl.sum(tl.where(giver, owner_dual, nothing), 0))
            owner = tl.where(here, new_owner, owner)
            owner_dual = tl.where(here, new_dual, owner_dual)
            turning = tl.where(before < 0, 0, turning)
            column = before
        joining += 1

    taken = (owner >= 0) & (lane < columns)
    holder = tl.load(order + first + owner, mask=taken, other=0)
    tl.store(chosen + holder, lane.to(tl.int64), mask=taken)


_kernel: Any = triton.jit(_assign) if available else None
