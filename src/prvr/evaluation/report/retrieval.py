"""Section: recalls of the run next to published numbers."""

from __future__ import annotations

from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.published import published_caveat, published_recall
from prvr.evaluation.report.content import RECALL_COLUMNS, Cell, Column, ReportSection, ReportTable, recall_cells
from prvr.evaluation.significance import compare_ranks
from prvr.scoring import recalls


def retrieval(study: Study, alone: Tensor | None) -> ReportSection:
    """The main table. ``alone``: ranks of the backbone before TRACE joined, (Q,)."""
    subject, method = study.subject, study.subject.config.method
    base = "base branch" if subject.with_trace else method
    measured = {base: study.ranks["base"]} | ({"TRACE": study.ranks["trace"]} if subject.with_trace else {})
    if "witness" in study.ranks:
        measured[f"{base}, hub offset"] = study.ranks["hubs"]
        measured["witness"] = study.ranks["witness"]
    if alone is not None:
        measured = {f"{method} before the TRACE phase": alone} | measured
    rows: list[list[Cell]] = [[name, *recall_cells(recalls(found))] for name, found in measured.items()]
    strong = [len(rows) - 1]
    banks = {
        f"{name}, query bank": study.ranks[f"{key}_bank"]
        for key, name in (("base", base), ("trace", "TRACE"))
        if f"{key}_bank" in study.ranks
    }
    rows += [[name, *recall_cells(recalls(found))] for name, found in banks.items()]
    for known in dict.fromkeys([method, *(["trace"] if subject.with_trace else [])]) if not subject.trained_on else ():
        numbers = published_recall(known, subject.dataset.collection, subject.dataset.visual_feature)
        if numbers is not None:
            rows.append([f"{known}, published", *recall_cells(numbers)])
    protocol = subject.protocol
    lead = (
        f"{subject.ranked}: {len(subject.dataset.captions):,} queries, {len(subject.dataset):,} "
        f"videos, one labelled video per query. Weights: {protocol.selection}; seed {subject.config.seed}. "
        f"{_bank_words(study)}A rank is 1 + videos scored strictly higher + equal ones earlier in the gallery."
    )
    caveat = published_caveat(subject.dataset.visual_feature)
    note = (
        caveat
        if len(rows) > len(measured) + len(banks)
        else "No published numbers for this collection and these features."
    )
    table = ReportTable("retrieval", "Retrieval (%)", [Column("scoring"), *RECALL_COLUMNS], rows, note, strong)
    return ReportSection("retrieval", "Retrieval", lead, [table])


def _bank_words(study: Study) -> str:
    """What the query bank changes, with its interval; an empty text without one."""
    if not study.bank:
        return ""
    change = compare_ranks(study.ranks[study.final], study.ranks[f"{study.final}_bank"])
    return f"{study.bank[:1].upper()}{study.bank[1:]}; with it: {change}. "
