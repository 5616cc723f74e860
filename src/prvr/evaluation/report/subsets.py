"""Section: whether TRACE helps where a peak is unsupported.

The subsets are queries that the base ranks wrongly, by how unsupported the winner's peak is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.report.charts import quartile_figure
from prvr.evaluation.report.content import (
    Cell,
    Column,
    Drawing,
    ReportSection,
    ReportTable,
    Verdict,
    interval,
    without_trace,
)
from prvr.evaluation.significance import Estimate, mean_rank_gain
from prvr.scoring import recalls

TITLE = "Hard negatives: where a peak is unsupported"


def named_subsets(study: Study) -> dict[str, Tensor]:
    """All queries, the base's errors, and the errors whose winner has the least supported peak; (Q,) bool each."""
    errors, everything = study.baseline_errors, torch.ones_like(study.baseline_errors)
    found = {"all queries": everything, "baseline errors": errors}
    if study.views is not None and study.views.negative is not None:
        gap = study.views.negative.unsupported_gap
        found["top 50 % by gap"] = hardest_share(gap, errors, 0.5)
        found["top 25 % by gap"] = hardest_share(gap, errors, 0.25)
    return {name: rows for name, rows in found.items() if rows.any()}


def hard_negatives(study: Study) -> ReportSection:
    if not study.subject.with_trace or study.views is None or study.views.negative is None:
        return without_trace("subsets", TITLE)
    if not study.baseline_errors.any():
        return ReportSection("subsets", TITLE, absent="The base ranks every labelled video first: there are no errors.")
    base, trace, gap = study.ranks["base"], study.ranks["trace"], study.views.negative.unsupported_gap
    assert study.views.truth is not None
    between = gap - study.views.truth.unsupported_gap  # as the figure's caption has it
    rows: list[list[Cell]] = []
    deltas = []
    for name, chosen in named_subsets(study).items():
        before, after = recalls(base[chosen]), recalls(trace[chosen])
        gain = mean_rank_gain(base[chosen], trace[chosen])
        deltas.append(after.sum_r - before.sum_r)
        rows.append(
            [name, int(chosen.sum()), float(gap[chosen].mean()), before.sum_r, after.sum_r, deltas[-1], gain.delta]
        )
    columns = [Column("queries"), Column("count"), Column("mean gap", 3), Column("base SumR", 2)]
    columns += [Column("TRACE SumR", 2), Column("ΔSumR", 2, True), Column("mean gain", 2, True)]
    bands = gap_quartiles(between, study.baseline_errors)
    quartiles = [(q, mean_rank_gain(base[q], trace[q])) for q in bands if q.any()]
    bins: list[list[Cell]] = [
        [f"Q{n}", int(q.sum()), float(between[q].min()), float(between[q].max()), g.delta, interval(g)]
        for n, (q, g) in enumerate(quartiles, start=1)
    ]
    bin_columns = [Column("quartile"), Column("count"), Column("gap from", 3), Column("gap to", 3)]
    bin_columns += [Column("mean gain", 2, True), Column("95 %")]
    lead = (
        "A baseline error is a query whose best video under the base score is a wrong one: its hard negative. The "
        "unsupported gap is that video's strongest direct evidence minus the expected register support Σπb at the same "
        "frame. If TRACE only added an offset, its gain would not grow with the gap. Subsets are chosen by the hard "
        "negative's gap, as the paper's text says; quartiles by how much larger it is than the right video's, as the "
        "caption of its figure says."
    )
    shared = int((bands[-1] & hardest_share(gap, study.baseline_errors, 0.25)).sum())
    note = f"Mean gain in ranks. {shared:,} of the {int(bands[-1].sum()):,} queries of Q4 are in the top 25 % above."
    return ReportSection(
        "subsets",
        TITLE,
        lead,
        [
            ReportTable("subsets", "Hard-negative subsets", columns, rows, _other_correct(study)),
            ReportTable("quartiles", "Baseline errors by gap to the right video", bin_columns, bins, note),
        ],
        [
            Drawing(
                "quartiles",
                "Mean rank gain of baseline errors by the gap between hard negative and right video, 95 % interval.",
                quartile_figure(bins, [g for _, g in quartiles]),
            )
        ],
        _verdicts(deltas, quartiles[0][1], quartiles[-1][1]),
    )


def _verdicts(deltas: Sequence[float], first: Estimate, last: Estimate) -> list[Verdict]:
    """Whether the gain grows with the gap: over the subsets, and from the first quartile to the last."""
    grows = all(a < b for a, b in pairwise(deltas))
    steps = ", ".join(f"{delta:+.2f}" for delta in deltas)
    return [
        Verdict.of(
            grows,
            f"ΔSumR from all queries to the top 25 %: {steps}. "
            f"The gain {'grows' if grows else 'does not grow'} at each step.",
        ),
        Verdict.of(
            True if last.low > first.high else False if last.delta <= first.delta else None,
            f"Mean gain of Q4 {last.delta:+.2f} {interval(last)} against Q1 {first.delta:+.2f} {interval(first)}.",
        ),
    ]


def _other_correct(study: Study) -> str:
    """How many hard negatives are in truth correct, where all correct videos are known."""
    if not study.any_ranks:
        return ""
    errors = study.baseline_errors.nonzero().squeeze(1).tolist()
    negative = study.rivals.negative.tolist()
    correct = sum(negative[row] in study.subject.dataset.positives[row] for row in errors)
    return f"For {correct:,} of {len(errors):,} baseline errors the “hard negative” is another correct video."


def hardest_share(gap: Tensor, errors: Tensor, share: float) -> Tensor:
    """The share of error queries with the largest gap, (Q,) bool; at least one if there is any error.

    Args:
        gap: (Q,) unsupported gap of each query's hard negative.
        errors: (Q,) bool, queries that the base ranks wrongly at the top.
        share: such as 0.25; of equal gaps the earlier query is taken.

    >>> gap = torch.tensor([0.9, 0.1, 0.4, 0.3, 0.2])
    >>> hardest_share(gap, torch.tensor([False, True, True, True, True]), 0.5)
    tensor([False, False,  True,  True, False])
    """
    rows = errors.nonzero().squeeze(1)
    order = gap[rows].sort(descending=True, stable=True).indices
    kept = rows[order[: _count(len(rows), share)]]
    chosen = torch.zeros_like(errors)
    chosen[kept] = True
    return chosen


def gap_quartiles(gap: Tensor, errors: Tensor) -> list[Tensor]:
    """Error queries in four near-equal bins by gap, the smallest first; (Q,) bool each. The last is the top 25 %."""
    nested = [hardest_share(gap, errors, share) for share in (1.0, 0.75, 0.5, 0.25)]
    return [outer & ~inner for outer, inner in zip(nested, [*nested[1:], torch.zeros_like(errors)], strict=True)]


def _count(rows: int, share: float) -> int:
    return min(rows, max(1, round(share * rows)))
