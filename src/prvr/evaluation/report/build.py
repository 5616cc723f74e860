"""Writes a study as a folder: the list of sections, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.report.ablation import ablation
from prvr.evaluation.report.case import case
from prvr.evaluation.report.content import ReportSection
from prvr.evaluation.report.corruption import corruption
from prvr.evaluation.report.efficiency import efficiency
from prvr.evaluation.report.files import WrittenReport, publish, write_query_files
from prvr.evaluation.report.finer_sections import (
    corpus_moments_section,
    hubs_section,
    kind_section,
    positives_section,
    ratio_section,
)
from prvr.evaluation.report.localisation import agreement, moments
from prvr.evaluation.report.margins import corrections
from prvr.evaluation.report.rank_changes import rank_changes, significance
from prvr.evaluation.report.registers import registers
from prvr.evaluation.report.retrieval import retrieval
from prvr.evaluation.report.sensitivity import sensitivity
from prvr.evaluation.report.subsets import hard_negatives


@dataclass(frozen=True)
class ReportExtras:
    """What sections may use beyond the study."""

    alone: Tensor | None = None  # (Q,) ranks of the backbone before TRACE joined
    retrained: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)  # by ablation row and run: (Q,) ranks
    videos: Path | None = None  # folder of video files


REPORT_SECTIONS: dict[str, Callable[[Study, ReportExtras], ReportSection]] = {  # in the order of the page
    "retrieval": lambda study, extras: retrieval(study, extras.alone),
    "positives": lambda study, _: positives_section(study.finer),
    "ratio": lambda study, _: ratio_section(study.finer),
    "types": lambda study, _: kind_section(study.finer),
    "ablation": lambda study, extras: ablation(study, extras.retrained),
    "corruption": lambda study, _: corruption(study),
    "subsets": lambda study, _: hard_negatives(study),
    "significance": lambda study, _: significance(study),
    "rank-changes": lambda study, _: rank_changes(study),
    "sensitivity": lambda study, _: sensitivity(study),
    "efficiency": lambda study, _: efficiency(study),
    "registers": lambda study, _: registers(study),
    "case": lambda study, extras: case(study, extras.videos),
    "corrections": lambda study, _: corrections(study),
    "agreement": lambda study, _: agreement(study),
    "moments": lambda study, _: moments(study),
    "vcmr": lambda study, _: corpus_moments_section(study.finer),
    "hubs": lambda study, _: hubs_section(study.finer),
}


def write_report(
    study: Study,
    folder: Path,
    *,
    only: Sequence[str] = (),
    extras: ReportExtras | None = None,
    command: str = "prvr report RUN",
) -> WrittenReport:
    """Write page, tables, figures and per-query files; ``only`` some sections, on a page named after them."""
    chosen = [key for key in REPORT_SECTIONS if not only or key in only]
    sections = [REPORT_SECTIONS[key](study, extras or ReportExtras()) for key in chosen]
    subject = study.subject
    config = subject.config
    weights = config.trace
    about = {
        "run": str(subject.run.path),
        "method": config.method + (" + TRACE" if subject.with_trace else ""),
        "data": subject.ranked,
        "weights": f"{subject.weights}: {subject.selection}",
        "seed": str(config.seed),
        "made by": command,
        "files": f"{folder}: ranks.csv and queries.csv hold every query's numbers",
    }
    if subject.with_trace:
        about["TRACE"] = (
            f"λ {subject.fusion_weight:g}, γ {weights.routing_strength:g}, η {weights.soft_weight:g}, "
            f"τ {weights.temperature:g}"
        )
    if study.bank:
        about["query bank"] = study.bank.partition(": ")[2]
    title = f"{config.method}{' + TRACE' if subject.with_trace else ''} on {subject.dataset.collection}"
    if subject.trained_on:
        title += f", trained on {subject.trained_on}"
    write_query_files(study, folder)
    return publish(sections, folder, title=title, about=about, command=command, whole=not only)
