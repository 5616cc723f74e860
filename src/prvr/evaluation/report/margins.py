"""Section: the queries that TRACE put right at the top, and what changed their margins."""

from __future__ import annotations

import textwrap

from prvr.evaluation.findings import Study
from prvr.evaluation.report.charts import corrections_figure
from prvr.evaluation.report.content import Cell, Column, Drawing, ReportSection, ReportTable, without_trace
from prvr.evaluation.significance import signed

TITLE = "Top-rank corrections"
SHOWN = 10


def corrections(study: Study) -> ReportSection:
    if not study.subject.with_trace:
        return without_trace("corrections", TITLE)
    base, trace, rivals = study.ranks["base"], study.ranks["trace"], study.rivals
    restored, lost = (base > 1) & (trace == 1), (base == 1) & (trace > 1)
    counted = f"{int(restored.sum()):,} put right at the top, {int(lost.sum()):,} put wrong. "
    if not restored.any():
        return ReportSection("corrections", TITLE, absent=f"{counted}There is nothing to analyse.")
    weight = study.subject.fusion_weight
    gained, conceded = weight * rivals.trace_truth.double(), weight * rivals.trace_negative.double()
    rows = restored.nonzero().squeeze(1)
    rows = rows[(gained - conceded)[rows].sort(descending=True, stable=True).indices]
    before = rivals.margin_before.double()
    captions = study.subject.dataset.captions
    after = before + gained - conceded
    numbers = (before, after, gained, conceded, gained - conceded)
    cells: list[list[Cell]] = [
        [captions[r].sentence, captions[r].id, int(base[r]), *(float(values[r]) for values in numbers)]
        for r in rows.tolist()
    ]
    columns = [Column("query"), Column("id"), Column("rank before"), Column("margin before", 4, True)]
    columns += [Column(title, 4, True) for title in ("margin after", "ΔGT", "ΔHN", "Δadv")]
    top = rows[:SHOWN]
    names = [textwrap.shorten(captions[r].sentence, 40, placeholder=" …") for r in top.tolist()]
    drawn = corrections_figure(
        names, before[top].numpy(), after[top].numpy(), gained[top].numpy(), conceded[top].numpy()
    )
    lead = (
        f"{counted}ΔGT and ΔHN are what TRACE adds to the right video and to the hard negative; Δadv is their "
        f"difference, and the margin over that hard negative changes by it. Over all queries the mean Δadv is "
        f"{signed(float((gained - conceded).mean()), 5)}."
    ).replace("-", "−")
    return ReportSection(
        "corrections",
        TITLE,
        lead,
        [
            ReportTable(
                "corrections",
                "Queries put right at the top",
                columns,
                cells[:SHOWN],
                f"The {len(cells[:SHOWN])} with the largest Δadv; queries.csv has all.",
            )
        ],
        [Drawing("corrections", "Margins before and after, and what made them change.", drawn)],
    )
