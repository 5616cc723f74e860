"""Section: routing corruption, and whether it behaves as the theory says it must."""

from __future__ import annotations

from itertools import pairwise

from prvr.evaluation.findings import Study
from prvr.evaluation.report.content import (
    RECALL_COLUMNS,
    Cell,
    Column,
    ReportSection,
    ReportTable,
    Verdict,
    without_trace,
)
from prvr.evaluation.report.content import recall_cells as cells
from prvr.evaluation.significance import Comparison, compare_ranks
from prvr.scoring import recalls
from prvr.trace import BASE_VARIANT, CORRUPTIONS, TRACE_VARIANT

TITLE = "Routing corruption: is it the route, or any offset?"


def corruption(study: Study) -> ReportSection:
    if not study.subject.with_trace:
        return without_trace("corruption", TITLE)
    base, trace = study.ranks["base"], study.ranks["trace"]
    rows: list[list[Cell]] = []
    for variant in (BASE_VARIANT, TRACE_VARIANT, *CORRUPTIONS):
        found = study.ranks[variant.key]
        moved: list[Cell] = [None] * 4
        if variant is not BASE_VARIANT:
            change = compare_ranks(base, found)
            moved = [change.delta_sum_r, change.rank_up, change.rank_down, change.mean_gain]
        rows.append([variant.label, *cells(recalls(found)), *moved])
    columns = [Column("variant"), *RECALL_COLUMNS, Column("ΔSumR", 2, True), Column("rank↑"), Column("rank↓")]
    lead = (
        "Uniform q→R gives every register the same weight. Cross-video shuffle takes the activation from another video "
        "(one derangement of the gallery, fixed by the seed). Shuffle R→F exchanges the valid frames that "
        "the registers point to, and leaves direct evidence alone. The extra branch stays, what it means does not."
    )
    note = "Rank changes and ΔSumR against the base branch; mean gain in ranks. Uniform q→R is row (6) of the ablation."
    table = ReportTable("corruption", TITLE, [*columns, Column("mean gain", 2, True)], rows, note, [1])
    verdicts = [_verdict(variant.label, compare_ranks(study.ranks[variant.key], trace)) for variant in CORRUPTIONS]
    return ReportSection("corruption", TITLE, lead, [table], verdicts=[*verdicts, _order(study)])


def _verdict(label: str, change: Comparison) -> Verdict:
    """The intact route must beat the corrupted one; paired over queries."""
    found = f"TRACE against {label}: {change}"
    if change.low > 0:
        return Verdict.of(True, f"{found}. As the theory requires: destroying the route costs recall.")
    if change.high < 0:
        return Verdict.of(False, f"{found}. Not as the theory requires: the destroyed route ranks better.")
    return Verdict.of(
        None, f"{found}. The interval contains zero: the meaning of the route made no significant difference here."
    )


def _order(study: Study) -> Verdict:
    """The paper's order: each corruption costs more than the one before, the last one falls below the base."""
    keys = ["trace", *(variant.key for variant in CORRUPTIONS)]
    sums = [recalls(study.ranks[key]).sum_r for key in keys]
    falls = all(before > after for before, after in pairwise(sums))
    below = sums[-1] < recalls(study.ranks["base"]).sum_r
    listed = ", ".join(f"{total:.2f}" for total in sums)
    return Verdict.of(
        falls and below,
        f"The paper's order (each lower than the one before, the last below the base) "
        f"{'appears' if falls and below else 'does not appear'}: SumR {listed} for TRACE, uniform, cross-video and "
        f"shuffled grounding, {recalls(study.ranks['base']).sum_r:.2f} for the base.",
    )
