"""Is a row better than another? Paired by query, pooled over seeds, with whole videos drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prvr.evaluation.many_runs.benchmarks import Benchmark
from prvr.evaluation.significance import SEED, ClusterDraws, Estimate, Floats, cluster_changes, joint_changes
from prvr.scoring import CUTOFFS


@dataclass(frozen=True)
class MethodChange:
    """A row against the reference on the same queries."""

    row: str
    seeds: tuple[int, int]  # of the row, of the reference
    sum_r: Estimate
    at: Mapping[int, Estimate]  # by cut-off
    holm: float  # p of SumR, corrected for the number of rows that are tested (Holm)


def measure_changes(
    benchmarks: Sequence[Benchmark], reference: str, *, seed: int = SEED
) -> tuple[dict[str, list[MethodChange]], list[MethodChange]]:
    """Every row against the reference.

    For each query, the cut-offs that its rank meets are averaged over the seeds of a row; the difference of these means
    is what is drawn. So ΔSumR is the difference of the two means in the table of recalls.

    Benchmarks may share videos, all of them (other features) or some (other queries, or features that are missing for
    some videos). For their average, such a video is drawn in all of them at once, so it counts once.

    Returns:
        changes by benchmark, where the reference was ranked there; and those averaged over benchmarks, of rows that
        were ranked in all of several.
    """
    ranked = [each for each in benchmarks if _others(each, reference)]
    common = [row for row in _others(ranked[0], reference) if all(each.row(row) for each in ranked)] if ranked else []
    found: dict[str, list[MethodChange]] = {}
    parts = []
    chance = np.random.default_rng(seed)
    for group in _sharing_videos(ranked):
        for benchmark in group:
            rows = _others(benchmark, reference)
            drawn = cluster_changes(*_differences(benchmark, reference, rows), seed=seed)
            found[benchmark.name] = _changes(drawn, _seeds([benchmark], reference, rows))
        if len(ranked) > 1 and common:
            some = [_differences(benchmark, reference, common) for benchmark in group]
            parts += joint_changes(some, seed=chance)
    ordered = {each.name: found[each.name] for each in ranked}
    return ordered, _changes(ClusterDraws.average(parts), _seeds(ranked, reference, common)) if parts else []


def _sharing_videos(benchmarks: Sequence[Benchmark]) -> list[list[Benchmark]]:
    """Benchmarks in groups; a video's name occurs in one group only, whatever the collections are called."""
    groups: list[list[Benchmark]] = []
    for benchmark in benchmarks:
        own, apart = set(benchmark.video_ids), []
        together = [benchmark]
        for group in groups:
            if any(own & set(other.video_ids) for other in group):
                together = [*group, *together]
            else:
                apart.append(group)
        groups = [*apart, together]
    return groups


def _others(benchmark: Benchmark, reference: str) -> list[str]:
    """Rows that the reference can be compared with; none where it was not ranked."""
    names = [row.name for row in benchmark.rows]
    return [name for name in names if name != reference] if reference in names else []


def _differences(benchmark: Benchmark, reference: str, rows: Sequence[str]) -> tuple[Floats, Sequence[str]]:
    """What each query of some rows meets more than in the reference, (Q, 5 × rows), and the queries' right videos."""
    before = _meets(benchmark, reference)
    return np.concatenate([_meets(benchmark, row) - before for row in rows], axis=1), benchmark.video_ids


def _seeds(benchmarks: Sequence[Benchmark], reference: str, rows: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The number of seeds of each row and of the reference; of several benchmarks, the smallest."""

    def seeds(name: str) -> int:
        return min(len(row.ranks) for each in benchmarks if (row := each.row(name)))

    return {row: (seeds(row), seeds(reference)) for row in rows}


_COLUMNS = 1 + len(CUTOFFS)  # SumR, then R@1, R@5, …


def _meets(benchmark: Benchmark, name: str) -> Floats:
    """How many cut-offs each query's rank meets, and whether it meets each, as means over a row's seeds: (Q, 5)."""
    row = benchmark.row(name)
    assert row is not None
    ranks = np.stack([found.numpy() for found in row.ranks.values()])  # (S, Q)
    at = np.stack([(ranks <= k).mean(0) for k in CUTOFFS], axis=1)  # (Q, 4)
    return np.concatenate([at.sum(1, keepdims=True), at], axis=1)


def _changes(drawn: ClusterDraws, rows: Mapping[str, tuple[int, int]]) -> list[MethodChange]:
    estimates = [drawn.estimate(column) for column in range(len(rows) * _COLUMNS)]
    total = estimates[::_COLUMNS]
    corrected = holm([estimate.p for estimate in total])
    return [
        MethodChange(
            row,
            seeds,
            total[number],
            dict(zip(CUTOFFS, estimates[number * _COLUMNS + 1 : (number + 1) * _COLUMNS], strict=True)),
            corrected[number],
        )
        for number, (row, seeds) in enumerate(rows.items())
    ]


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of several p.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p)), key=lambda place: p[place])
    corrected, least = [0.0] * len(p), 0.0
    for done, place in enumerate(order):
        least = max(least, min(1.0, (len(p) - done) * p[place]))
        corrected[place] = least
    return corrected
