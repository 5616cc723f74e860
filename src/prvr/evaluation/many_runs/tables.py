"""The tables of many runs: recalls of each benchmark (the paper's Table 1), differences, cost (Table 2), all runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from prvr.evaluation.many_runs.benchmarks import Benchmark, ScoredRow
from prvr.evaluation.many_runs.changes import MethodChange
from prvr.evaluation.many_runs.cost import RunCost, epoch_seconds, trained_on
from prvr.evaluation.published import (
    COST_CAVEAT,
    COSTS,
    published_caveat,
    published_methods,
    published_sum_r,
    published_values,
)
from prvr.evaluation.report.content import RECALL_COLUMNS, Cell, Column, ReportTable, Spread
from prvr.scoring import CUTOFFS, recalls

PublishedRows: TypeAlias = Literal["same", "all", "none"]
"""Published numbers beside one's own: of the same methods, of all methods, or none."""


def recall_rows(row: ScoredRow) -> list[Cell]:
    """R@K and SumR of a row, as means over its seeds."""
    summary = row.summary
    mean, sd = summary.mean.as_dict(), summary.sd or {}
    names = [*(f"r{k}" for k in CUTOFFS), "sum_r"]
    return [Spread(mean[name], sd.get(name)) for name in names]


def published_rows(benchmark: Benchmark, which: PublishedRows) -> dict[str, list[Cell]]:
    """R@K and SumR as they are printed in the papers, by method; a number that is not printed is None."""
    if which == "none":
        return {}
    own = [*dict.fromkeys(row.method for row in benchmark.rows)]
    own += ["trace"] if any(row.scoring == "trace" and row.method == "dreamprvr" for row in benchmark.rows) else []
    methods = published_methods(benchmark.collection, benchmark.feature) if which == "all" else own
    found: dict[str, list[Cell]] = {}
    for method in methods:
        values = published_values(method, benchmark.collection, benchmark.feature)
        if values is not None:
            found[method] = [*([None] * (len(RECALL_COLUMNS) - len(values))), *values]
    return found


def recall_table_of(benchmark: Benchmark, which: PublishedRows) -> ReportTable:
    """Table 1 of one benchmark: every row's recalls, then the published ones."""
    rows: list[list[Cell]] = [[row.name, len(row.ranks), *recall_rows(row)] for row in benchmark.rows]
    measured = len(rows)
    known = published_rows(benchmark, which)
    rows += [[f"{method}, published", None, *cells] for method, cells in known.items()]
    queries, videos = len(benchmark.query_ids), len(set(benchmark.video_ids))
    note = f"{benchmark.split}: {queries:,} queries of {videos:,} videos. Mean ± standard deviation over seeds."
    note += _weights(benchmark)
    note += f" {_sentence(published_caveat(benchmark.feature))}" if known else ""
    columns = [Column("method"), Column("seeds"), *RECALL_COLUMNS]
    best = best_cells([row[2:] for row in rows[:measured]], offset=2)
    title = f"Retrieval on {benchmark.name} (%)"
    return ReportTable(
        f"recalls-{slug(benchmark.name)}", title, columns, rows, note, best=best, soft=range(measured, len(rows))
    )


def _weights(benchmark: Benchmark) -> str:
    """Which weights were ranked, where not all rows have the same."""
    kinds: dict[str, list[str]] = {}
    for row in benchmark.rows:
        for name in dict.fromkeys(each.weights for each in row.runs):
            kinds.setdefault(name, []).append(row.label)
    if len(kinds) < 2:
        return ""
    told = [f"{name} ({', '.join(dict.fromkeys(labels))})" for name, labels in kinds.items()]
    return f" Weights: {'; '.join(told)}."


def best_cells(rows: Sequence[Sequence[Cell]], offset: int = 0) -> set[tuple[int, int]]:
    """The highest mean of each column, as printed: what looks equal is equal."""
    if len(rows) < 2:
        return set()
    shown = [[round(cell.mean, 1) if isinstance(cell, Spread) else float("-inf") for cell in row] for row in rows]
    top = [max(column) for column in zip(*shown, strict=True)]
    return {
        (row, place + offset) for row, line in enumerate(shown) for place, cell in enumerate(line) if cell == top[place]
    }


def change_table(name: str, title: str, changes: Sequence[MethodChange], reference: str) -> ReportTable:
    """Rows against the reference."""
    columns = [Column("method"), *(Column(f"ΔR@{k}", 2, True) for k in CUTOFFS), Column("ΔSumR", 2, True)]
    columns += [Column("2.5 %", 2, True), Column("97.5 %", 2, True), Column("p", 5), Column("p, Holm", 5)]
    rows: list[list[Cell]] = [
        [
            change.row,
            *(change.at[k].delta for k in CUTOFFS),
            change.sum_r.delta,
            change.sum_r.low,
            change.sum_r.high,
            change.sum_r.p,
            change.holm,
        ]
        for change in changes
    ]
    note = f"Points against {reference}. Interval and p are those of ΔSumR."
    return ReportTable(f"differences-{slug(name)}", title, columns, rows, note)


def cost_table(benchmark: Benchmark, costs: Mapping[str, RunCost], which: PublishedRows) -> ReportTable:
    """Table 2 of one benchmark. ``costs``: by the label of a method."""
    rows: list[list[Cell]] = []
    for row in benchmark.rows:
        if row.scoring in ("hubs", "witness") or (
            row.scoring == "base" and benchmark_has(benchmark, row.label, "backbone")
        ):
            continue  # costs what another row costs, or was not measured
        trace, cost = row.scoring == "trace", costs.get(row.label)
        epochs = [epoch_seconds(each, "joint" if trace else "backbone") for each in row.runs]
        known = [seconds for seconds in epochs if seconds is not None]
        parameters = None if cost is None else (cost.backbone_parameters + trace * cost.trace_parameters) / 1e6
        times = [None, None] if cost is None else [cost.gallery(trace), cost.retrieval(trace)]
        train = sum(known) / len(known) if known else None
        rows.append([row.name, _ms(train), parameters, *map(_ms, times), row.sum_r])
    caveat, measured = "", len(rows)
    if which != "none" and benchmark.collection == "charades":
        methods = {row.method for row in benchmark.rows} | {"trace"} if which == "same" else set(COSTS)
        for method, published in COSTS.items():
            if method in methods:
                sum_r = published_sum_r(method, "charades", benchmark.feature)
                rows.append(
                    [
                        f"{method}, published",
                        published.train_ms,
                        published.parameters,
                        published.gallery_ms,
                        published.retrieval_ms,
                        sum_r,
                    ]
                )
                caveat = f" {_sentence(COST_CAVEAT)}"
    columns = [Column("method"), Column("train, ms/epoch", 0), Column("parameters, M", 2), Column("gallery, ms", 0)]
    columns += [Column("retrieval, ms", 0), Column("SumR")]
    note = " ".join([*_where(benchmark, costs)]) + caveat
    title = f"Cost on {benchmark.name}"
    return ReportTable(f"cost-{slug(benchmark.name)}", title, columns, rows, note, soft=range(measured, len(rows)))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def benchmark_has(benchmark: Benchmark, label: str, scoring: str) -> bool:
    return any(row.label == label and row.scoring == scoring for row in benchmark.rows)


def _where(benchmark: Benchmark, costs: Mapping[str, RunCost]) -> list[str]:
    machines = sorted({trained_on(each) for row in benchmark.rows for each in row.runs})
    told = [f"Trained on {' and '.join(machines)}; median epoch without validation, mean over seeds."]
    if costs:
        sizes = next(iter(costs.values()))
        processors = sorted({cost.processor for cost in costs.values()})
        told.append(
            f"Gallery: encoding {sizes.videos:,} videos; retrieval: encoding {sizes.queries:,} queries, similarity and "
            f"ranking. One pass of the first seed on {' and '.join(processors)}."
        )
    return told


def runs_table(benchmarks: Sequence[Benchmark]) -> ReportTable:
    """Every run, with its own SumR by the scoring that it ranks with."""
    rows: list[list[Cell]] = []
    for benchmark in benchmarks:
        final = {(row.label, each.seed): (row, each) for row in benchmark.rows for each in row.runs}  # the last scoring
        for row, each in final.values():
            sum_r = recalls(row.ranks[each.seed]).sum_r
            chosen = each.record.protocol.selection
            rows.append([benchmark.name, row.name, each.seed, sum_r, chosen, str(each.folder)])
    names = ("dataset", "method", "seed", "SumR", "weights", "ranks of every query")
    columns = [Column(name, 2) for name in names]
    return ReportTable("runs", "All runs", columns, rows)


def slug(name: str) -> str:
    """A name as part of a file's name.

    >>> slug("synth (2)")
    'synth-2'
    """
    return re.sub(r"[^\w.+]+", "-", name).strip("-")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
