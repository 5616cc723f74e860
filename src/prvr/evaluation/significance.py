"""Is one scoring better than another, and how sure can we be? Paired by query, from ranks alone.

A query adds an integer to SumR: how many of the cut-offs 1, 5, 10, 100 its rank meets, 0 to 4. The paired difference of
two scorings therefore takes at most nine values, and both tests collapse onto the counts of those values:

- drawing N query indices with replacement is drawing a multinomial over the nine counts;
- flipping the sign of each query's difference is drawing one binomial for each absolute value.

Both are exact in distribution, not approximations, so 20,000 draws cost the same for 40 queries as for 17,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.scoring import CUTOFFS, Positives, ranks, require_ranks

DRAWS = 20_000
SEED = 20260712  # the seed the paper names for its tests

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A difference in percentage points, its 95 % bootstrap interval, and the one-sided sign-flip p of being > 0."""

    delta: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"{signed(self.delta)} [{signed(self.low)}, {signed(self.high)}], {p}"


@dataclass(frozen=True)
class Comparison:
    """``other`` against ``base`` over the same queries; positive numbers favour ``other``."""

    sum_r: Estimate
    at: dict[int, Estimate]  # by cut-off: ΔR@1, ΔR@5, …
    count: int
    rank_up: int  # queries whose rank improved, by any amount
    rank_down: int
    wins: int  # queries that meet more cut-offs than before: those that raise SumR
    losses: int
    mean_gain: float  # rank before minus rank after
    median_gain: float

    @property
    def delta_sum_r(self) -> float:
        return self.sum_r.delta

    @property
    def low(self) -> float:
        return self.sum_r.low

    @property
    def high(self) -> float:
        return self.sum_r.high

    @property
    def p(self) -> float:
        return self.sum_r.p

    @property
    def delta(self) -> dict[int, float]:
        """ΔR@k by cut-off."""
        return {k: estimate.delta for k, estimate in self.at.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {**asdict(self), "at": {f"r{k}": asdict(estimate) for k, estimate in self.at.items()}}

    def __str__(self) -> str:
        return f"ΔSumR {self.sum_r}"


def compare(base: Tensor, other: Tensor, positives: Positives, *, draws: int = DRAWS, seed: int = SEED) -> Comparison:
    """Compare two score matrices, (Q, V) and (Q, V), of the same queries over the same gallery."""
    if base.shape != other.shape:
        raise ValueError(
            f"base scores have shape {tuple(base.shape)} and the others {tuple(other.shape)}; expected two scorings of "
            "the same queries over the same gallery: score both with one gallery"
        )
    return compare_ranks(ranks(base, positives), ranks(other, positives), draws=draws, seed=seed)


def compare_ranks(base: Tensor, other: Tensor, *, draws: int = DRAWS, seed: int = SEED) -> Comparison:
    """Compare two lists of 1-based ranks, (Q,) and (Q,), of the same queries in the same order.

    >>> import torch
    >>> print(compare_ranks(torch.tensor([1, 2, 7, 300]), torch.tensor([1, 2, 7, 300])))
    ΔSumR +0.00 [+0.00, +0.00], p = 1.000
    """
    require_ranks(base)
    require_ranks(other)
    if len(base) != len(other):
        raise ValueError(
            f"{len(base)} base ranks against {len(other)} others; "
            "expected the same queries in the same order: join the two records by query id first"
        )
    if draws < 1:
        raise ValueError(f"draws is {draws}, expected at least 1 (the paper uses {DRAWS})")
    before: Integers = base.cpu().numpy().astype(np.int64)
    after: Integers = other.cpu().numpy().astype(np.int64)
    gain = before - after
    crossed = {k: (after <= k).astype(np.int64) - (before <= k) for k in CUTOFFS}
    contribution: Integers = np.sum(list(crossed.values()), axis=0)
    rng = np.random.default_rng(seed)
    return Comparison(
        sum_r=estimate(contribution, draws, rng),
        at={k: estimate(difference, draws, rng) for k, difference in crossed.items()},
        count=len(gain),
        rank_up=int((gain > 0).sum()),
        rank_down=int((gain < 0).sum()),
        wins=int((contribution > 0).sum()),
        losses=int((contribution < 0).sum()),
        mean_gain=float(gain.mean()),
        median_gain=float(np.median(gain)),
    )


def mean_rank_gain(before: Tensor, after: Tensor) -> Estimate:
    """Mean number of ranks gained, with its interval and p: (Q,), (Q,) ranks of the same queries."""
    gain = (before - after).cpu().numpy().astype(np.int64)
    found = estimate(gain, DRAWS, np.random.default_rng(SEED))
    return Estimate(found.delta / 100, found.low / 100, found.high / 100, found.p)


def estimate(differences: Integers, draws: int, rng: np.random.Generator) -> Estimate:
    """Mean of integer differences (Q,), times 100, with its interval and p."""
    values, counts = np.unique(differences, return_counts=True)
    sums = bootstrap_sums(values, counts, draws, rng)
    low, high = np.percentile(100.0 * sums / len(differences), [2.5, 97.5])
    observed = int(differences.sum())
    reached = int((sign_flip_sums(values, counts, draws, rng) >= observed).sum())  # integers: ≥ is exact
    return Estimate(100.0 * observed / len(differences), float(low), float(high), (1 + reached) / (1 + draws))


def bootstrap_sums(values: Integers, counts: Integers, draws: int, rng: np.random.Generator) -> Integers:
    """Sums of differences over queries resampled with replacement, (draws,)."""
    total = int(counts.sum())
    sums: Integers = rng.multinomial(total, counts / total, size=draws) @ values
    return sums


def sign_flip_sums(values: Integers, counts: Integers, draws: int, rng: np.random.Generator) -> Integers:
    """Sums of differences after a fair coin decided each query's sign, (draws,)."""
    sums: Integers = np.zeros(draws, dtype=np.int64)
    for size in np.unique(np.abs(values[values != 0])):
        queries = int(counts[np.abs(values) == size].sum())
        sums += size * (2 * rng.binomial(queries, 0.5, size=draws) - queries)
    return sums


@dataclass(frozen=True)
class RankPair:
    """Two scorings of the same queries: one training on one dataset."""

    base: Tensor  # (Q,) ranks
    other: Tensor  # (Q,)
    videos: tuple[str, ...]  # the right video of each query: its queries are not independent
    dataset: str = ""  # pairs with the same name share their videos (other seeds, other noise)

    @property
    def differences(self) -> Integers:
        """How many more cut-offs ``other`` meets than ``base``, (Q,)."""
        before, after = (ranks.cpu().numpy().astype(np.int64) for ranks in (self.base, self.other))
        found: Integers = np.sum([(after <= k).astype(np.int64) - (before <= k) for k in CUTOFFS], axis=0)
        return found


def pooled_change(pairs: Sequence[RankPair], *, draws: int = DRAWS, seed: int = SEED) -> Estimate:
    """ΔSumR averaged over trainings and datasets, with an interval that draws whole videos.

    All queries of a video are drawn together, in every training on its dataset at once: neither queries of one video
    nor seeds on one dataset count as independent. Every pair has the same weight.

    >>> import torch
    >>> pair = RankPair(torch.tensor([7, 7, 2, 9]), torch.tensor([1, 7, 2, 3]), ("a", "a", "b", "b"))
    >>> pooled_change([pair], draws=1000).delta
    75.0
    """
    if not pairs:
        raise ValueError("no pairs of rankings were given to pool")
    rng, found = np.random.default_rng(seed), []
    for dataset in dict.fromkeys(pair.dataset for pair in pairs):
        some = [
            (pair.differences[:, None].astype(np.float64), pair.videos) for pair in pairs if pair.dataset == dataset
        ]
        found += joint_changes(some, draws=draws, seed=rng)
    return ClusterDraws.average(found).estimate(0)


@dataclass(frozen=True)
class ClusterDraws:
    """Means of C columns of differences over the same queries, and how they would spread."""

    observed: Floats  # (C,)
    drawn: Floats  # (draws, C) with whole videos drawn again
    flipped: Floats  # (draws, C) with the sign of whole videos flipped

    def estimate(self, column: int) -> Estimate:
        """The estimate of one column, in percentage points."""
        parts = (self.observed[column], self.drawn[:, column], self.flipped[:, column])
        observed, drawn, flipped = (100.0 * part for part in parts)
        return _clustered_estimate(round(float(observed), 10) + 0.0, drawn, flipped)  # means of seeds are not exact

    @staticmethod
    def average(several: Sequence[ClusterDraws]) -> ClusterDraws:
        """The same columns averaged over datasets, each with the same weight."""
        parts = ("observed", "drawn", "flipped")
        return ClusterDraws(*(np.mean([getattr(each, part) for each in several], axis=0) for part in parts))


def cluster_changes(
    differences: Floats, videos: Sequence[str], *, draws: int = DRAWS, seed: int = SEED
) -> ClusterDraws:
    """Draw whole videos, for many columns of differences at once.

    Args:
        differences: (Q, C), one row per query; for several seeds, their mean.
        videos: the right video of each query; its queries are drawn together.

    >>> found = cluster_changes(np.array([[1.0], [0.0], [0.0], [2.0]]), ["a", "a", "b", "b"], draws=1000)
    >>> found.estimate(0).delta
    75.0
    """
    return joint_changes([(differences, videos)], draws=draws, seed=seed)[0]


def joint_changes(
    parts: Sequence[tuple[Floats, Sequence[str]]], *, draws: int = DRAWS, seed: int | np.random.Generator = SEED
) -> list[ClusterDraws]:
    """``cluster_changes`` of several sets of queries whose videos may be the same, all of them or some.

    Each sample draws from all videos together. A video of several parts is drawn in all of them at once, and its sign
    is flipped in all of them, so that it counts once.

    Args:
        parts: for each, differences (Q, C) and the right video of each query.

    >>> ones = np.ones((2, 1))
    >>> found = joint_changes([(ones, ["a", "b"]), (ones, ["b", "c"])], draws=8000)
    >>> round(16 * ClusterDraws.average(found).estimate(0).p)  # of three videos: 2 in 16, where four would have 1
    2
    """
    names = {name: row for row, name in enumerate(sorted({video for _, videos in parts for video in videos}))}
    sums, counts = [], []
    for differences, videos in parts:
        owners = [names[video] for video in videos]
        sums.append(np.zeros((len(names), differences.shape[1])))
        counts.append(np.zeros((len(names), 1)))
        np.add.at(sums[-1], owners, differences)
        np.add.at(counts[-1], owners, 1)
    return draw_clusters(sums, counts, draws, np.random.default_rng(seed))


def draw_clusters(
    sums: Sequence[Floats], counts: Sequence[Floats], draws: int, rng: np.random.Generator
) -> list[ClusterDraws]:
    """Draw V videos again and again, and flip the signs of all their queries together.

    A sample in which a part has no video at all says nothing about it and is drawn again.

    Args:
        sums: of each part, (V, C): of the differences of each video's queries.
        counts: of each part, (V, 1): how many queries these are.
    """
    size, owned = len(counts[0]), np.concatenate(counts, axis=1)  # (V, P)
    shares = [part / count.sum() for part, count in zip(sums, counts, strict=True)]
    found = [ClusterDraws(share.sum(0), *np.zeros((2, draws, share.shape[1]))) for share in shares]
    for rows in np.array_split(np.arange(draws), max(1, draws * size // 20_000_000)):
        again = rng.multinomial(size, np.full(size, 1 / size), size=len(rows))
        while (empty := ((again @ owned) == 0).any(1)).any():
            again[empty] = rng.multinomial(size, np.full(size, 1 / size), size=int(empty.sum()))
        signs = 2.0 * rng.integers(2, size=(len(rows), size), dtype=np.int8) - 1.0
        for part, count, share, into in zip(sums, counts, shares, found, strict=True):
            into.drawn[rows] = (again @ part) / (again @ count)
            into.flipped[rows] = signs @ share
    return found


def _clustered_estimate(observed: float, drawn: Floats, flipped: Floats) -> Estimate:
    low, high = np.percentile(drawn, [2.5, 97.5])
    reached = int((flipped >= observed - 1e-9).sum())
    return Estimate(observed, float(low), float(high), (1 + reached) / (1 + len(drawn)))


def signed(value: float, digits: int = 2) -> str:
    """Always with a sign, and never ``-0.00``.

    >>> signed(1.1), signed(-0.0009), signed(-0.0009, 4)
    ('+1.10', '+0.00', '-0.0009')
    """
    return f"{round(value, digits) + 0.0:+.{digits}f}"
