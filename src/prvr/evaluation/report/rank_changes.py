"""Sections: paired differences with their significance, and how ranks moved."""

from __future__ import annotations

import numpy as np

from prvr.evaluation.findings import Study
from prvr.evaluation.report.content import Cell, Column, ReportSection, ReportTable, without_trace
from prvr.evaluation.report.subsets import named_subsets
from prvr.evaluation.significance import DRAWS, SEED, compare_ranks
from prvr.scoring import recalls

SURE, MOVED = "Significance", "Rank changes"


def significance(study: Study) -> ReportSection:
    if not study.subject.with_trace:
        return without_trace("significance", SURE)
    base, trace = study.ranks["base"], study.ranks["trace"]
    rows: list[list[Cell]] = []
    for name, chosen in named_subsets(study).items():
        change = compare_ranks(base[chosen], trace[chosen])
        for what, found in [("SumR", change.sum_r), *((f"R@{k}", e) for k, e in change.at.items())]:
            rows.append([name, change.count, what, found.delta, found.low, found.high, found.p])
    columns = [Column("queries"), Column("count"), Column("of"), Column("Δ", 2, True), Column("2.5 %", 2, True)]
    columns += [Column("97.5 %", 2, True), Column("p", 4)]
    lead = (
        f"TRACE minus base, paired by query. {DRAWS:,} bootstrap samples of query indices, percentiles 2.5 and 97.5; "
        f"one-sided sign flip with {DRAWS:,} assignments, p = (1 + #≥)/(1 + {DRAWS:,}); seed {SEED}. The subsets are "
        "chosen by what the base does wrong, so part of any gain there is regression to the mean: compare them with "
        "one another and with the corruptions rather than with zero."
    )
    strong = [n for n, row in enumerate(rows) if row[2] == "SumR"]
    return ReportSection(
        "significance",
        SURE,
        lead,
        [ReportTable("significance", "Paired differences (points)", columns, rows, strong=strong)],
    )


def rank_changes(study: Study) -> ReportSection:
    if not study.subject.with_trace:
        return without_trace("rank-changes", MOVED)
    base, trace = study.ranks["base"], study.ranks["trace"]
    change = compare_ranks(base, trace)
    gain = (base - trace).numpy()
    before, after = recalls(base).r1, recalls(trace).r1
    moved = [before, after, after - before, change.rank_up, change.rank_down, int((gain == 0).sum())]
    rows: list[list[Cell]] = [[*moved, change.wins, change.losses, change.mean_gain, change.median_gain]]
    columns = [Column("base R@1"), Column("TRACE R@1"), Column("ΔR@1", 2, True), Column("rank↑"), Column("rank↓")]
    columns += [Column("same"), Column("wins"), Column("losses"), Column("mean gain", 2, True)]
    columns += [Column("median gain", 1, True)]
    note = "Gain: rank before minus rank after. Wins and losses: queries that meet more or fewer of the cut-offs."
    percentiles = np.percentile(gain, [1, 10, 50, 90, 99]).tolist()
    lead = "Percentiles 1, 10, 50, 90, 99 of the gain: " + ", ".join(f"{p:+.0f}" for p in percentiles) + "."
    return ReportSection(
        "rank-changes", MOVED, lead.replace("-", "−"), [ReportTable("rank_changes", MOVED, columns, rows, note)]
    )
