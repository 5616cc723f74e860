"""Section: SumR as λ, γ and η change, one at a time."""

from __future__ import annotations

from prvr.evaluation.findings import Study
from prvr.evaluation.report.charts import sensitivity_figure
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
from prvr.evaluation.significance import compare_ranks
from prvr.scoring import recalls

TITLE = "Sensitivity to λ, γ and η"


def sensitivity(study: Study) -> ReportSection:
    if not study.subject.with_trace:
        return without_trace("sensitivity", TITLE)
    base, config = study.ranks["base"], study.subject.config.trace
    in_force = {"λ": study.subject.fusion_weight, "γ": config.routing_strength, "η": config.soft_weight}
    rows: list[list[Cell]] = []
    curves: dict[str, dict[float, tuple[float, float, float]]] = {}
    for letter, values in study.sweeps.items():
        for value, found in values.items():
            change, total = compare_ranks(base, found), recalls(found).sum_r
            curves.setdefault(letter, {})[value] = (total, change.low, change.high)
            mark = "in force" if value == in_force[letter] else ""
            rows.append([letter, value, total, change.delta_sum_r, interval(change.sum_r), mark])
    columns = [Column("weight"), Column("value", 3), Column("SumR", 2), Column("ΔSumR to base", 2, True)]
    note = "One weight changes, the others stay. Weights are fixed after training: no value was trained for."
    table = ReportTable("sensitivity", "SumR by weight", [*columns, Column("95 %"), Column("")], rows, note)
    caption = f"SumR on {study.subject.dataset.split}; the band is the paired 95 % interval against the base (dashed)."
    split = study.subject.dataset.split
    lead = (
        f"Measured on {split}, the reported split: to look at, not to choose by (the paper shows validation: "
        "prvr report RUN --split val --only sensitivity)."
        if split == "test"
        else f"Measured on {split}."
    )
    figure = sensitivity_figure(curves, in_force, recalls(base).sum_r)
    return ReportSection(
        "sensitivity", TITLE, lead, [table], [Drawing("sensitivity", caption, figure)], _identities(study)
    )


def _identities(study: Study) -> list[Verdict]:
    """What must hold exactly for any weights: switched-off parts give the ablation rows, rank by rank."""
    expected = {"λ = 0 is the base branch": ("λ", "base"), "η = 0 is row (7)": ("η", "route_only")}
    expected |= {"γ = 0 is row (4)": ("γ", "direct_soft")}
    return [
        Verdict(bool((study.sweeps[letter][0.0] == study.ranks[row]).all()), f"{text}, rank by rank.")
        for text, (letter, row) in expected.items()
    ]
