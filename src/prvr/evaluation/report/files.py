"""The files of a report: the page, tables, figures, and every query's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prvr.evaluation.curve_moments import RANKS
from prvr.evaluation.figures import save_figure
from prvr.evaluation.findings import Study
from prvr.evaluation.finer.measure import save_moments
from prvr.evaluation.records import write_columns
from prvr.evaluation.report.content import ReportSection
from prvr.evaluation.report.localisation import agreement_flags
from prvr.evaluation.report.page import page
from prvr.files import write_whole


@dataclass(frozen=True)
class WrittenReport:
    """A report on disk."""

    page: Path
    sections: list[ReportSection]


def publish(
    sections: list[ReportSection], folder: Path, *, title: str, about: Mapping[str, str], command: str, whole: bool
) -> WrittenReport:
    """Write tables, figures and the page. A part of a report gets a separate page, named after its sections."""
    write_sections(sections, folder)
    name = "report.html" if whole else f"report-{'-'.join(section.key for section in sections)}.html"
    commands = {section.key: f"{command} --only {section.key}" for section in sections}
    write_whole(folder / name, page(title, about, sections, commands))
    return WrittenReport(folder / name, sections)


def write_sections(sections: Sequence[ReportSection], folder: Path) -> None:
    """CSV and LaTeX of every table, PNG and SVG of every figure."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for section in sections:
        for table in section.tables:
            write_whole(folder / "tables" / f"{table.name}.csv", table.csv())
            write_whole(folder / "tables" / f"{table.name}.tex", table.latex())
        for drawing in section.drawings:
            save_figure(drawing.figure, folder / "figures" / drawing.name)


def write_query_files(study: Study, folder: Path) -> None:
    """``ranks.csv``: every query's rank under every scoring; ``queries.csv``: all else that a table was made from."""
    folder.mkdir(parents=True, exist_ok=True)
    captions = study.subject.dataset.captions
    names = {"query_id": [c.id for c in captions], "video_id": list(study.subject.owners)}
    ranked = {key: found.tolist() for key, found in study.ranks.items()}
    ranked |= {f"{key}_any": found.tolist() for key, found in study.any_ranks.items()}
    swept = {f"{a}={v:g}": found.tolist() for a, values in study.sweeps.items() for v, found in values.items()}
    write_columns(folder / "ranks.csv", {**names, **ranked, **swept})
    details = {**_details(study), **study.finer.columns()}
    write_columns(folder / "queries.csv", {**names, "sentence": [c.sentence for c in captions], **details})
    if study.searches is not None:  # a part of a report leaves them as they are
        save_moments(study.finer, folder)


def _details(study: Study) -> dict[str, Sequence[object]]:
    rivals, views, ids = study.rivals, study.views, study.subject.dataset.video_ids
    found: dict[str, Sequence[object]] = {
        "hard_negative": [ids[row] for row in rivals.negative.tolist()],
        "base_truth": rivals.base_truth.tolist(),
        "base_negative": rivals.base_negative.tolist(),
    }
    if study.subject.with_trace:
        found |= {"trace_truth": rivals.trace_truth.tolist(), "trace_negative": rivals.trace_negative.tolist()}
        found |= {"margin_after": rivals.margin_after.tolist()}
    if views is None:
        return found
    found["frames"] = views.frames.tolist()
    if views.clip is not None:
        found["best_clip"] = views.clip.tolist()
    found["base_peak"] = views.base.argmax(1).tolist()
    for role, evidence in (("truth", views.truth), ("negative", views.negative)):
        if evidence is not None:
            found |= {
                f"{role}_direct": evidence.direct_at_peak.tolist(),
                f"{role}_support": evidence.support_at_peak.tolist(),
                f"{role}_gap": evidence.unsupported_gap.tolist(),
                f"{role}_direct_peak": evidence.direct_peak.tolist(),
                f"{role}_routed_peak": evidence.routed_peak.tolist(),
            }
    if views.truth is not None:
        for register, weights in enumerate(views.truth.activation.T.tolist(), start=1):
            found[f"activation_{register}"] = weights
    found |= {f"agrees_{name}": flags.long().tolist() for name, flags in agreement_flags(study).items()}
    return found | _overlaps(study)


def _overlaps(study: Study) -> dict[str, Sequence[object]]:
    """Best overlap of each curve's first stretch, and of its first five, with the moment; empty where unknown."""
    found: dict[str, Sequence[object]] = {}
    for name, values in study.moments.of.items():
        for column, k in enumerate(RANKS):
            cells: list[object] = [""] * len(study.subject.dataset.captions)
            for row, value in zip(study.moments.rows, values[:, column].tolist(), strict=True):
                cells[row] = value
            found[f"iou{k}_{name}"] = cells
    return found
