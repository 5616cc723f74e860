"""Sections: does TRACE help where a peak is unsupported, is it sure, and how ranks moved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.report.content import (
    Cell,
    Column,
    Drawing,
    Section,
    Table,
    Verdict,
    interval,
    without_trace,
)
from prvr.evaluation.report.drawing import quartile_figure
from prvr.evaluation.significance import DRAWS, SEED, compare_ranks
from prvr.evaluation.subsets import gap_quartiles, hardest_share, mean_gain
from prvr.scoring import recalls

HARD, SURE, MOVED = "Hard negatives: where a peak is unsupported", "Significance", "Rank changes"


def named_subsets(study: Study) -> dict[str, Tensor]:
    """All queries, the base's errors, and the errors whose winner has the least supported peak; (Q,) bool each."""
    errors, everything = study.baseline_errors, torch.ones_like(study.baseline_errors)
    found = {"all queries": everything, "baseline errors": errors}
    if study.views is not None and study.views.negative is not None:
        gap = study.views.negative.unsupported_gap
        found["top 50 % by gap"] = hardest_share(gap, errors, 0.5)
        found["top 25 % by gap"] = hardest_share(gap, errors, 0.25)
    return {name: rows for name, rows in found.items() if rows.any()}


def hard_negatives(study: Study) -> Section:
    if not study.subject.with_trace or study.views is None or study.views.negative is None:
        return without_trace("subsets", HARD)
    if not study.baseline_errors.any():
        return Section("subsets", HARD, absent="The base ranks every labelled video first: there are no errors.")
    base, trace, gap = study.ranks["base"], study.ranks["trace"], study.views.negative.unsupported_gap
    rows: list[list[Cell]] = []
    deltas = []
    for name, chosen in named_subsets(study).items():
        before, after = recalls(base[chosen]), recalls(trace[chosen])
        gain = mean_gain(base[chosen], trace[chosen])
        deltas.append(after.sum_r - before.sum_r)
        rows.append(
            [name, int(chosen.sum()), float(gap[chosen].mean()), before.sum_r, after.sum_r, deltas[-1], gain.delta]
        )
    columns = [Column("queries"), Column("count"), Column("mean gap", 3), Column("base SumR", 2)]
    columns += [Column("TRACE SumR", 2), Column("ΔSumR", 2, True), Column("mean gain", 2, True)]
    quartiles = [(q, mean_gain(base[q], trace[q])) for q in gap_quartiles(gap, study.baseline_errors) if q.any()]
    bins: list[list[Cell]] = [
        [f"Q{n}", int(q.sum()), float(gap[q].min()), float(gap[q].max()), g.delta, interval(g)]
        for n, (q, g) in enumerate(quartiles, start=1)
    ]
    bin_columns = [Column("quartile"), Column("count"), Column("gap from", 3), Column("gap to", 3)]
    bin_columns += [Column("mean gain", 2, True), Column("95 %")]
    grows = all(a < b for a, b in pairwise(deltas))
    steps = ", ".join(f"{delta:+.2f}" for delta in deltas)
    first, last = quartiles[0][1], quartiles[-1][1]
    lead = (
        "A baseline error is a query whose best video under the base score is a wrong one: its hard negative. The "
        "unsupported gap is that video's strongest direct evidence minus the expected register support Σπb at the same "
        "frame. If TRACE only added an offset, its gain would not grow with the gap."
    )
    return Section(
        "subsets",
        HARD,
        lead,
        [
            Table("subsets", "Hard-negative subsets", columns, rows, _other_correct(study)),
            Table("quartiles", "Baseline errors by gap", bin_columns, bins, "Mean gain in ranks; Q4 is the top 25 %."),
        ],
        [
            Drawing(
                "quartiles",
                "Mean rank gain of baseline errors by unsupported gap, 95 % interval.",
                quartile_figure(bins, [g for _, g in quartiles]),
            )
        ],
        [
            Verdict.of(
                grows,
                f"ΔSumR from all queries to the top 25 %: {steps}. "
                f"The gain {'grows' if grows else 'does not grow'} at each step.",
            ),
            Verdict.of(
                True if last.low > first.high else False if last.delta <= first.delta else None,
                f"Mean gain of Q4 {last.delta:+.2f} {interval(last)} against Q1 {first.delta:+.2f} {interval(first)}.",
            ),
        ],
    )


def _other_correct(study: Study) -> str:
    """How many hard negatives are in truth correct, where all correct videos are known."""
    if not study.any_ranks:
        return ""
    errors = study.baseline_errors.nonzero().squeeze(1).tolist()
    negative = study.rivals.negative.tolist()
    correct = sum(negative[row] in study.subject.dataset.positives[row] for row in errors)
    return f"For {correct:,} of {len(errors):,} baseline errors the “hard negative” is another correct video."


def significance(study: Study) -> Section:
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
    return Section(
        "significance", SURE, lead, [Table("significance", "Paired differences (points)", columns, rows, strong=strong)]
    )


def rank_changes(study: Study) -> Section:
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
    return Section("rank-changes", MOVED, lead.replace("-", "−"), [Table("rank_changes", MOVED, columns, rows, note)])
