"""Section: what the model costs. Times are measured where the report is made; training times the run logged."""

from __future__ import annotations

from statistics import median

from prvr.evaluation.findings import Study
from prvr.evaluation.published import COST_CAVEAT, COSTS
from prvr.evaluation.report.content import Cell, Column, ReportSection, ReportTable
from prvr.evaluation.timing import processor_name
from prvr.training import read_metrics

TITLE = "Efficiency"


def efficiency(study: Study) -> ReportSection:
    subject, seconds = study.subject, study.seconds
    backbone = sum(p.numel() for p in subject.model.backbone.parameters()) / 1e6
    trace = sum(p.numel() for p in subject.model.trace.parameters()) / 1e6
    epochs: dict[str, list[float]] = {}
    for record in read_metrics(subject.run.path):
        epochs.setdefault(str(record["phase"]), []).append(float(record["seconds"]))
    per_epoch = {phase: median(found) for phase, found in epochs.items()}
    encode, ask, rank = (seconds.get(name) for name in ("gallery encoding", "query encoding", "ranking"))
    base = seconds.get("base similarity")
    method = subject.config.method
    rows: list[list[Cell]] = [_row(method, backbone, per_epoch.get("backbone"), [encode], ask, [base], rank)]
    if subject.with_trace:
        more, index = seconds.get("TRACE similarity"), seconds.get("TRACE factors")
        rows.append(_row("TRACE", backbone + trace, per_epoch.get("joint"), [encode, index], ask, [more], rank))
    for name in dict.fromkeys([method, *(["trace"] if subject.with_trace else [])]):
        if name in COSTS and subject.config.data.collection == "charades":
            cost = COSTS[name]
            retrieval = cost.retrieval_ms / 1000
            times: list[Cell] = [cost.train_ms / 1000, cost.gallery_ms / 1000, None, None, None, retrieval]
            rows.append([f"{name}, published", cost.parameters, *times])
    columns = [Column("model"), Column("parameters, M", 2), Column("train, s/epoch", 2)]
    columns += [Column("gallery, s", 2), Column("queries, s", 2), Column("similarity, s", 2)]
    columns += [Column("ranking, s", 2), Column("retrieval, s", 2)]
    trained = subject.run.record.get("machine", {})
    gpu = trained.get("gpu") or f"a CPU ({trained.get('processor', 'unknown')})"
    lead = (
        f"{len(subject.dataset):,} videos, {len(subject.dataset.captions):,} queries, float32 on "
        f"{processor_name(subject.device)}. Training as the run logged it, on {gpu}: median epoch of the backbone "
        "phase and of the joint phase, without validation. Gallery is the encoding of all videos; retrieval is query "
        "encoding, similarity and ranking by counting. Wall times of one pass: other work on the machine shows in them."
    )
    note = COST_CAVEAT if len(rows) > 1 + subject.with_trace else ""
    return ReportSection("efficiency", TITLE, lead, [ReportTable("efficiency", "Cost", columns, rows, note)])


def _row(
    name: str,
    parameters: float,
    epoch: float | None,
    encoding: list[float | None],
    queries: float | None,
    similarity: list[float | None],
    ranking: float | None,
) -> list[Cell]:
    gallery, compared = _sum(encoding), _sum(similarity)
    return [name, parameters, epoch, gallery, queries, compared, ranking, _sum([queries, compared, ranking])]


def _sum(parts: list[float | None]) -> float | None:
    """The sum, or None where a part was not measured."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
