"""Ranks of the right videos, by counting, and the recalls computed from them.

A rank is 1 + the videos that score strictly better + the videos with the same score that come earlier in the gallery.
A stable sort would give the same place, but counting needs no sort: one comparison per score, on any device, in
small chunks.

>>> scores = torch.tensor([[0.9, 0.5, 0.9], [0.1, 0.2, 0.3]])
>>> ranks(scores, torch.tensor([2, 1]))  # the first query's tie goes to video 0, which stands earlier
tensor([2, 2])
>>> ranks(scores, [[1, 2], [2]])  # several right answers: the best of them counts
tensor([2, 1])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import torch
from torch import Tensor

Positives: TypeAlias = Tensor | Sequence[Sequence[int]]
"""The right videos: one gallery row per query, ``(Q,)``, or a list of rows for each query."""

CUTOFFS = (1, 5, 10, 100)
"""The K of the R@K that this field reports; SumR is their sum."""

ELEMENT_BUDGET = 1 << 20
"""Scores looked at in one chunk: about 30 MB of temporaries in float32 for a matrix of any size."""


@dataclass(frozen=True)
class Recall:
    """R@K in percent for each cut-off, over ``count`` queries.

    >>> recall = recalls(torch.tensor([1, 3, 7, 200]))
    >>> recall.r1, recall.r10, recall.sum_r
    (25.0, 75.0, 225.0)
    """

    at: tuple[tuple[int, float], ...]  # (cut-off, percent), cut-offs ascending
    count: int

    def __getitem__(self, k: int) -> float:
        for cutoff, percent in self.at:
            if cutoff == k:
                return percent
        raise KeyError(f"no R@{k} here, only {', '.join(f'R@{c}' for c in self.cutoffs)}; pass ks= to recalls")

    @property
    def cutoffs(self) -> tuple[int, ...]:
        return tuple(cutoff for cutoff, _ in self.at)

    @property
    def r1(self) -> float:
        return self[1]

    @property
    def r5(self) -> float:
        return self[5]

    @property
    def r10(self) -> float:
        return self[10]

    @property
    def r100(self) -> float:
        return self[100]

    @property
    def sum_r(self) -> float:
        """The sum of the unrounded recalls."""
        return sum(percent for _, percent in self.at)

    def as_dict(self) -> dict[str, float]:
        """``{"r1": …, "r5": …, "r10": …, "r100": …, "sum_r": …, "count": …}``, ready for JSON."""
        return {**{f"r{cutoff}": percent for cutoff, percent in self.at}, "sum_r": self.sum_r, "count": self.count}

    @staticmethod
    def from_dict(values: Mapping[str, float]) -> Recall:
        """The inverse of ``as_dict``."""
        at = [(int(name[1:]), float(value)) for name, value in values.items() if name[:1] == "r" and name[1:].isdigit()]
        return Recall(tuple(sorted(at)), int(values["count"]))


def ranks(scores: Tensor, positives: Positives, *, budget: int = ELEMENT_BUDGET) -> Tensor:
    """1-based rank of each query's best positive.

    Args:
        scores: (Q, V), higher is better, all finite.
        positives: the gallery row of the right video per query, (Q,); or a list of rows for each query.
        budget: how many scores one chunk may look at.

    Returns:
        (Q,) int64, on the device of the scores.
    """
    query, found = positive_ranks(scores, positives, budget=budget)
    best = torch.full((len(scores),), scores.shape[1] + 1, device=scores.device)
    return best.scatter_reduce(0, query, found, "amin")


def positive_ranks(scores: Tensor, positives: Positives, *, budget: int = ELEMENT_BUDGET) -> tuple[Tensor, Tensor]:
    """The rank of every positive, not only of the best: query rows (N,), ascending, and 1-based ranks (N,).

    >>> positive_ranks(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 2]])
    (tensor([0, 0]), tensor([1, 3]))
    """
    query, video = positive_pairs(scores, positives)
    return query, _pair_ranks(scores, query, video, budget)


def coverage(scores: Tensor, positives: Positives, k: int, *, budget: int = ELEMENT_BUDGET) -> float:
    """Recall of *all* positives: the mean over queries of the share of their positives ranked within k, in percent.

    With one positive per query this is R@k.

    >>> coverage(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 2]], k=1)
    50.0
    """
    if len(scores) == 0:
        raise ValueError("coverage over no queries is undefined; expected at least one row of scores")
    query, found = positive_ranks(scores, positives, budget=budget)
    inside = (found <= k).double()
    counts = torch.bincount(query, minlength=len(scores)).double()
    shares = torch.zeros_like(counts).index_add(0, query, inside) / counts
    return 100.0 * float(shares.mean())


def recalls(ranks: Tensor, ks: Sequence[int] = CUTOFFS) -> Recall:
    """R@K of 1-based ranks, (Q,), for each cut-off in ``ks``."""
    require_ranks(ranks)
    if not ks or min(ks) < 1 or len(set(ks)) != len(ks):
        raise ValueError(f"ks are {tuple(ks)}, expected different cut-offs of at least 1, such as {CUTOFFS}")
    count = len(ranks)
    # Integer hits over an integer count: the percentage is exact to the last bit on any device.
    return Recall(tuple((k, 100.0 * int((ranks <= k).sum()) / count) for k in sorted(ks)), count)


def positive_pairs(scores: Tensor, positives: Positives) -> tuple[Tensor, Tensor]:
    """Positives as parallel lists of query rows and video rows, (N,) and (N,), each pair once, queries ascending.

    Checks everything that would make a rank meaningless: shapes, labels outside the gallery, queries without an
    answer, scores that are not finite.
    """
    if scores.ndim != 2:
        raise ValueError(f"scores have shape {tuple(scores.shape)}, expected (queries, videos)")
    query, video = _flatten(positives, scores.device)
    queries, videos = scores.shape
    given = len(positives)
    if given != queries:
        raise ValueError(f"{given} queries have positives but scores have {queries} rows; pass one entry per row")
    outside = (video < 0) | (video >= videos)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise ValueError(
            f"{int(outside.sum())} positives are outside the gallery of {videos} videos, the first is "
            f"{int(video[first])} for query {int(query[first])}; "
            "positives are 0-based columns of the scores: map video names to gallery rows first"
        )
    empty = torch.bincount(query, minlength=queries) == 0
    if empty.any():
        raise ValueError(
            f"{int(empty.sum())} queries have no positive, the first is query {int(empty.nonzero()[0])}; "
            "a query without an answer in the gallery has no rank: leave it out of scores and positives"
        )
    _require_finite(scores)
    pairs = torch.unique(query * videos + video)  # positives are a set: a repeated one must not count twice
    return torch.div(pairs, max(videos, 1), rounding_mode="floor"), pairs % max(videos, 1)


def require_ranks(ranks: Tensor) -> None:
    """Refuse what cannot be 1-based ranks of at least one query."""
    if ranks.ndim != 1 or not _holds_integers(ranks):
        raise ValueError(
            f"ranks are {ranks.dtype} of shape {tuple(ranks.shape)}, expected integers of shape (queries,); "
            "scores become ranks with ranks(scores, positives)"
        )
    if len(ranks) == 0:
        raise ValueError("recall over no queries is undefined; expected at least one rank")
    if int(ranks.min()) < 1:
        raise ValueError(f"the smallest rank is {int(ranks.min())}, expected at least 1; ranks count from 1")


def _holds_integers(tensor: Tensor) -> bool:
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool)


def _flatten(positives: Positives, device: torch.device) -> tuple[Tensor, Tensor]:
    """Query row and video row of each positive as given, (N,) and (N,)."""
    if isinstance(positives, Tensor):
        if positives.ndim != 1 or not _holds_integers(positives):
            raise ValueError(
                f"positives are {positives.dtype} of shape {tuple(positives.shape)}, expected integers of shape "
                "(queries,); for several positives per query pass a list of lists"
            )
        return torch.arange(len(positives), device=device), positives.to(device, torch.int64)
    if any(isinstance(row, int) for row in positives):
        raise ValueError("positives are a flat list, expected a tensor (queries,) or a list of lists; use torch.tensor")
    counts = torch.tensor([len(row) for row in positives], dtype=torch.int64)
    video = torch.tensor(list(chain.from_iterable(positives)), dtype=torch.int64)
    return torch.arange(len(positives)).repeat_interleave(counts).to(device), video.to(device)


def _pair_ranks(scores: Tensor, query: Tensor, video: Tensor, budget: int) -> Tensor:
    """Rank of ``video[n]`` in the row of ``query[n]``, (N,)."""
    scores = scores.detach()
    columns = torch.arange(scores.shape[1], device=scores.device)
    found = torch.empty_like(query)
    for part in _chunks(len(query), scores.shape[1], budget):
        rows = scores[query[part]]  # (n, V)
        own = video[part, None]  # (n, 1)
        bar = rows.gather(1, own)
        ahead = (rows > bar) | ((rows == bar) & (columns < own))
        found[part] = 1 + ahead.sum(1)
    return found


def _chunks(rows: int, width: int, budget: int) -> Iterator[slice]:
    step = max(1, budget // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _require_finite(scores: Tensor) -> None:
    if scores.numel() == 0 or not scores.dtype.is_floating_point:
        return
    low, high = scores.detach().aminmax()  # NaN passes through both: one pass, no (Q, V) temporary
    if bool(torch.isfinite(low) & torch.isfinite(high)):
        return
    nans = infinities = 0
    first: tuple[int, int] | None = None
    for part in _chunks(len(scores), scores.shape[1], ELEMENT_BUDGET):
        bad = ~torch.isfinite(scores[part])
        nans += int(torch.isnan(scores[part]).sum())
        infinities += int(torch.isinf(scores[part]).sum())
        if first is None and bad.any():
            row, column = bad.nonzero()[0].tolist()
            first = (part.start + row, column)
    assert first is not None
    raise ValueError(
        f"scores hold {nans} NaN and {infinities} infinite values, the first at query {first[0]}, video {first[1]}; "
        "ranks need finite scores: look for a video without valid frames, a zero vector that was normalised, "
        "or a half-precision overflow"
    )
