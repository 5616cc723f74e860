"""Section: recalls of the run next to published numbers, and several correct videos per query."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.published import published_caveat, published_recall
from prvr.evaluation.report.content import RECALL_COLUMNS, Cell, Column, ReportSection, ReportTable, recall_cells
from prvr.evaluation.study import COVERAGE_AT
from prvr.scoring import recalls

LABELS = {"base": "base branch", "trace": "TRACE"}


def retrieval(study: Study, alone: Tensor | None) -> ReportSection:
    """The main table. ``alone``: ranks of the backbone before TRACE joined, (Q,)."""
    subject, method = study.subject, study.subject.config.method
    base = "base branch" if subject.with_trace else method
    measured = {base: study.ranks["base"]} | ({"TRACE": study.ranks["trace"]} if subject.with_trace else {})
    if "witness" in study.ranks:
        measured["witness"] = study.ranks["witness"]
    if alone is not None:
        measured = {f"{method} before the TRACE phase": alone} | measured
    rows: list[list[Cell]] = [[name, *recall_cells(recalls(found))] for name, found in measured.items()]
    strong = [len(rows) - 1]
    for known in dict.fromkeys([method, *(["trace"] if subject.with_trace else [])]):
        numbers = published_recall(known, subject.config.data.collection, subject.dataset.visual_feature)
        if numbers is not None:
            rows.append([f"{known}, published", *recall_cells(numbers)])
    protocol = subject.protocol
    lead = (
        f"{protocol.dataset} {protocol.split}: {len(subject.dataset.captions):,} queries, {len(subject.dataset):,} "
        f"videos, one labelled video per query. Weights: {protocol.selection}; seed {subject.config.seed}. "
        "A rank is 1 + videos scored strictly higher + equal ones earlier in the gallery."
    )
    caveat = published_caveat(subject.dataset.visual_feature)
    note = caveat if len(rows) > len(measured) else "No published numbers for this collection and these features."
    table = ReportTable("retrieval", "Retrieval (%)", [Column("scoring"), *RECALL_COLUMNS], rows, note, strong)
    return ReportSection("retrieval", "Retrieval", lead, [table])


def several_positives(study: Study) -> ReportSection:
    """The same ranking when every correct video counts."""
    title, dataset = "Several correct videos per query", study.subject.dataset
    if not study.any_ranks:
        return ReportSection(
            "positives",
            title,
            absent="This split lists one correct video per query. Give a list of all of them (*.gt.jsonl, also gzipped "
            "or in a .zip): prvr report RUN --labels FILE.",
        )
    judged = study.subject.judged
    counts = [len(dataset.positives[row]) for row in judged.nonzero().squeeze(1).tolist()]
    several = sum(count > 1 for count in counts)
    rows: list[list[Cell]] = []
    for name, found in study.any_ranks.items():
        rows.append([f"{LABELS[name]}, labelled video", *recall_cells(recalls(study.ranks[name][judged])), None, None])
        shares: Mapping[int, float] = study.covered[name]
        rows.append([f"{LABELS[name]}, any correct video", *recall_cells(recalls(found[judged])), *shares.values()])
    columns = [Column("scoring"), *RECALL_COLUMNS, *(Column(f"coverage@{k}") for k in COVERAGE_AT)]
    given = study.subject.labelled is not None
    source = f"the label file names {len(counts):,} of {len(judged):,} queries, which are counted here"
    source = source if given else "as the dataset's own file says"
    lead = (
        f"{several:,} of {len(counts):,} queries ({100 * several / len(counts):.0f} %) have more than one correct "
        f"video, {sum(counts) / len(counts):.2f} on average ({source}). The rank is that of the best of them; "
        "coverage@k is the share of them within the first k, averaged over queries."
    )
    return ReportSection(
        "positives", title, lead, [ReportTable("positives", "Single and several positives (%)", columns, rows)]
    )
