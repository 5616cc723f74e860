"""One-to-one matching: each caption of a video gets a different clip."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.losses import matching_gpu
from prvr.losses.labels import is_positive, masked_mean, same_video


def matching_loss(queries: Tensor, labels: Tensor, clips: Tensor) -> Tensor:
    """``1 − mean cos`` over pairs of the best one-to-one matching, (N, D), (N,), (V, C, D) → ().

    Only videos with two queries or more take part; 0 where there is none.

    >>> queries = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    >>> clips = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # both prefer the first clip; one must take the second
    >>> matching_loss(queries, torch.tensor([0, 0]), clips)  # 1 − (1 + 0.6)/2
    tensor(0.2000)
    """
    own = F.normalize(clips, dim=-1)[labels.clamp(min=0)]  # (N, C, D)
    cosine = torch.einsum("nd,ncd->nc", F.normalize(queries, dim=-1), own)
    chosen = best_matching(cosine, labels, len(clips))
    counts = same_video(labels).any(1) & (chosen >= 0)
    found = cosine.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1)
    return counts.any() * (1 - masked_mean(found, counts))


@torch.no_grad()
def best_matching(similarity: Tensor, labels: Tensor, videos: int) -> Tensor:
    """For each query the column it is matched with, (N, C), (N,) → (N,): within a video every column is used at most
    once and the total is as large as can be. −1: padding, or left over where a video has more queries than columns.

    Exact (successive shortest paths), all videos at once. On a GPU one kernel does it without waiting for the host.

    >>> best_matching(torch.tensor([[0.9, 0.8], [0.9, 0.1], [0.3, 0.4]]), torch.tensor([0, 0, 1]), 2)
    tensor([1, 0, 1])
    """
    rows, counts = _queries_of(labels, videos)
    cost = -similarity.double().nan_to_num()
    # Without Triton, the host steers the same search and waits for the device at every step.
    search = matching_gpu.solve_on_gpu if cost.is_cuda and matching_gpu.available else _solve_on_host
    return search(cost, rows, counts)


def _queries_of(labels: Tensor, videos: int) -> tuple[Tensor, Tensor]:
    """Queries sorted by video, (N,), padding last; how many each video has, (V,)."""
    order = labels.masked_fill(labels < 0, videos).sort(stable=True).indices
    return order, is_positive(labels, videos).sum(0)


def _solve_on_host(cost: Tensor, order: Tensor, counts: Tensor) -> Tensor:
    """The Hungarian method with duals. Queries of a video join one by one, and each takes the cheapest path of
    re-assignments to a free column. Every line works on all videos; the loops run as long as the longest path."""
    columns, most = cost.shape[1], int(counts.max())
    videos, width = len(counts), max(columns, most)  # further columns of cost 0 for queries that stay unmatched
    start = counts.cumsum(0) - counts
    everyone = torch.arange(videos, device=cost.device)
    padded = F.pad(cost, (0, width - columns))
    lane = torch.arange(width, device=cost.device)
    allowed = lane < torch.maximum(counts, counts.new_full((), columns))[:, None]  # (V, W)
    owner = counts.new_full((videos, width), -1)  # which of its video's queries holds a column
    price, owner_dual = cost.new_zeros(videos, width), cost.new_zeros(videos, width)

    for joining in range(most):
        searching = counts > joining
        dual = cost.new_zeros(videos)
        distance = cost.new_full((videos, width), torch.inf)
        reached = torch.zeros_like(allowed)
        way = owner.new_full((videos, width), -1)  # the column before this one on the path; −1: the path begins
        query, query_dual, column = owner.new_full((videos,), joining), dual, owner.new_full((videos,), -1)
        while bool(searching.any()):
            row = order[(start + query).clamp(max=len(order) - 1)]
            through = padded[row] - query_dual[:, None] - price
            nearer = searching[:, None] & ~reached & allowed & (through < distance)
            distance = torch.where(nearer, through, distance)
            way = torch.where(nearer, column[:, None], way)
            step, nearest = distance.masked_fill(reached, torch.inf).min(1)
            step = torch.where(searching, step, 0.0)[:, None]
            dual = dual + step[:, 0]
            owner_dual, price = owner_dual + step * reached, price - step * reached
            distance = torch.where(reached, distance, distance - step)
            column = torch.where(searching, nearest, column)
            query, query_dual = owner[everyone, column], owner_dual[everyone, column]
            searching = searching & (query >= 0)
            reached = reached | ((lane == column[:, None]) & searching[:, None])
        turning = counts > joining
        while bool(turning.any()):
            before = way[everyone, column]
            begins = before < 0
            giver = before.clamp(min=0)
            new_owner = torch.where(begins, joining, owner[everyone, giver])
            new_dual = torch.where(begins, dual, owner_dual[everyone, giver])
            here = (lane == column[:, None]) & turning[:, None]
            owner = torch.where(here, new_owner[:, None], owner)
            owner_dual = torch.where(here, new_dual[:, None], owner_dual)
            turning = turning & ~begins
            column = torch.where(turning, before, column)

    holder = order[(start[:, None] + owner.clamp(min=0)).clamp(max=len(order) - 1)]  # (V, W) query that holds a column
    taken = (owner >= 0) & (lane < columns)
    chosen = counts.new_full((len(order) + 1,), -1)  # one more row, for columns that are not assigned
    chosen.scatter_(0, torch.where(taken, holder, len(order)).flatten(), lane.expand(videos, width).flatten())
    return chosen[:-1]
