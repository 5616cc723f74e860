"""Section: the ablation rows (0) to (8), read on one set of weights; next to them retrained runs, if given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from prvr.evaluation.evaluate import evaluate_run
from prvr.evaluation.findings import Study
from prvr.evaluation.report.content import (
    RECALL_COLUMNS,
    Cell,
    Column,
    ReportSection,
    ReportTable,
    interval,
    recall_cells,
    without_trace,
)
from prvr.evaluation.significance import compare_ranks
from prvr.evaluation.subject import Subject
from prvr.scoring import recalls
from prvr.trace import ABLATIONS, READINGS
from prvr.training import Run, RunError, TrainConfig

TITLE = "Ablation: what the evidence is made of"
NOTES = {  # what each row is, in one line
    "trace": "S_route + η S_soft",
    "base": "no evidence",
    "direct_only": "max d",
    "soft_only": "S_soft alone, at weight λ",
    "direct_soft": "γ = 0",
    "registers_only": "τ logsumexp(a/τ): no grounding to frames",
    "uniform": "π = 1/R, a replaced by its mean",
    "route_only": "η = 0",
    "average": "mean over valid frames for the maximum; soft route kept",
}
OTHER_READING = "another reading of the paper"
FLAGS = {  # rows that a training run can be given; the others exist at scoring time only
    "base": "--trace-stage.epochs 0",
    "direct_only": "--trace.routing-strength 0 --trace.soft-weight 0",
    "direct_soft": "--trace.routing-strength 0",
    "route_only": "--trace.soft-weight 0",
}


def ablation(study: Study, retrained: Mapping[str, Mapping[str, Tensor]]) -> ReportSection:
    """``retrained``: by row, the ranks of runs trained that way, by run name."""
    if not study.subject.with_trace:
        return without_trace("ablation", TITLE)
    base = study.ranks["base"]
    rows: list[list[Cell]] = []
    for number, variant in enumerate(ABLATIONS):
        for name, found in {"": study.ranks[variant.key], **retrained.get(variant.key, {})}.items():
            change = None if variant.key == "base" and not name else compare_ranks(base, found)
            difference: list[Cell] = [None, None] if change is None else [change.delta_sum_r, interval(change.sum_r)]
            label = f"retrained: {name}" if name else variant.label
            what = FLAGS.get(variant.key, "") if name else NOTES[variant.key]
            rows.append([f"({number})", label, *recall_cells(recalls(found)), *difference, what])
    for variant in READINGS:
        change = compare_ranks(base, study.ranks[variant.key])
        difference = [change.delta_sum_r, interval(change.sum_r)]
        rows.append(["", variant.label, *recall_cells(recalls(study.ranks[variant.key])), *difference, OTHER_READING])
    columns = [Column("row"), Column("variant"), *RECALL_COLUMNS, Column("ΔSumR to (1)", 2, True), Column("95 %")]
    flags = "; ".join(f"({number}) {FLAGS[v.key]}" for number, v in enumerate(ABLATIONS) if v.key in FLAGS)
    note = (
        "All rows are read on this run's weights, which were trained as row (0): they say what each part contributes "
        "to the score, not what training without it would give. The paper does not say which it did. To retrain a row: "
        f"prvr train DATASET --data DIR --out RUN2 with {flags}; then prvr report RUN --retrained RUN2. Rows (3), (5), "
        "(6) and (8) cannot be trained by a flag."
    )
    table = ReportTable("ablation", "Ablation rows (%)", [*columns, Column("what it is")], rows, note, [0])
    lead = (
        f"Every evidence score enters with the same λ = {study.subject.fusion_weight:g}; combined ones keep η = "
        f"{study.subject.config.trace.soft_weight:g}. Differences are paired with row (1), the base branch of the same "
        "weights."
    )
    return ReportSection("ablation", TITLE, lead, [table])


def retrained_row(config: TrainConfig) -> str | None:
    """Which ablation row a training configuration is, or None."""
    if config.trace_stage.epochs == 0:
        return "base"
    off = (config.trace.routing_strength == 0, config.trace.soft_weight == 0)
    return {(True, True): "direct_only", (True, False): "direct_soft", (False, True): "route_only"}.get(off)


def retrained_ranks(paths: Sequence[Path], subject: Subject, data: Path | None) -> dict[str, dict[str, Tensor]]:
    """Ranks of such runs on the subject's split, by row and run name; (Q,) each."""
    found: dict[str, dict[str, Tensor]] = {}
    folders = [path.name for path in paths]
    for path in paths:
        run = Run(path)
        row = retrained_row(run.config)
        if row is None:
            raise RunError(
                f"{path} was trained with γ and η above 0: it is not an ablation row; train one with "
                "--trace-stage.epochs 0, --trace.routing-strength 0 or --trace.soft-weight 0"
            )
        outcome = evaluate_run(run, data=data, split=subject.dataset.split, device=subject.device)
        if outcome.record.query_ids != subject.dataset.query_ids:
            raise RunError(f"{path} ranks other queries than {subject.run.path}: retrain it on the same dataset")
        scoring = "trace" if outcome.comparison is not None else "base"
        name = path.name if folders.count(path.name) == 1 else str(path)
        found.setdefault(row, {})[name] = outcome.record.ranks[scoring]
    return found
