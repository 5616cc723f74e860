"""Is a row better than another? Paired by query, pooled over seeds, with whole videos drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prvr.evaluation.many_runs.benchmarks import Benchmark, ScoredRow
from prvr.evaluation.significance import SEED, ClusterDraws, Estimate, Floats, cluster_changes
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

    Returns:
        changes by benchmark, where the reference was ranked there; and those averaged over benchmarks, of rows that
        were ranked in all of several.
    """
    found: dict[str, list[MethodChange]] = {}
    draws: dict[str, tuple[ClusterDraws, list[str]]] = {}
    videos: dict[tuple[str, frozenset[str]], int] = {}
    for benchmark in benchmarks:
        # Benchmarks over the same videos, such as two features of one dataset, are not independent: the same draws.
        number = videos.setdefault((benchmark.collection, frozenset(benchmark.video_ids)), len(videos))
        base = benchmark.row(reference)
        rows = [row for row in benchmark.rows if row is not base]
        if base is None or not rows:
            continue
        before = _meets(base)
        differences = np.concatenate([_meets(row) - before for row in rows], axis=1)
        drawn = cluster_changes(differences, benchmark.video_ids, seed=seed + number)
        draws[benchmark.name] = drawn, [row.name for row in rows]
        found[benchmark.name] = _changes(drawn, {row.name: (len(row.ranks), len(base.ranks)) for row in rows})
    first = next(iter(draws.values()))[1] if draws else []
    common = [row for row in first if all(row in names for _, names in draws.values())]
    if len(draws) < 2 or not common:
        return found, []
    parts = []
    for drawn, names in draws.values():
        columns = [names.index(row) * _COLUMNS + column for row in common for column in range(_COLUMNS)]
        parts.append(ClusterDraws(drawn.observed[columns], drawn.drawn[:, columns], drawn.flipped[:, columns]))
    seeds = {change.row: change.seeds for change in next(iter(found.values()))}
    return found, _changes(ClusterDraws.average(parts), {row: seeds[row] for row in common})


_COLUMNS = 1 + len(CUTOFFS)  # SumR, then R@1, R@5, …


def _meets(row: ScoredRow) -> Floats:
    """How many cut-offs each query's rank meets, and whether it meets each, as means over seeds: (Q, 5)."""
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
