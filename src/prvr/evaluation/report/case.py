"""Section: one correction in detail, chosen by rule."""

from __future__ import annotations

from pathlib import Path

from prvr.evaluation.corrections import Correction, candidates
from prvr.evaluation.curve_moments import known_times
from prvr.evaluation.figures import EvidenceCurves, correction_figure
from prvr.evaluation.findings import Study
from prvr.evaluation.report.charts import margin
from prvr.evaluation.report.content import Cell, Column, Drawing, ReportSection, ReportTable, without_trace
from prvr.evaluation.report.peak_frames import peak_frames_figure
from prvr.trace import PairEvidence

TITLE = "One correction"


def chosen_case(study: Study) -> Correction | None:
    """The largest correction, by the rule of ``find_correction``; None where no rank improved."""
    base, trace, rivals = study.ranks["base"], study.ranks["trace"], study.rivals
    rows = candidates(base, trace)
    if not len(rows):
        return None
    before, after = rivals.margin_before.double(), rivals.margin_after.double()
    row = int(rows[(after - before)[rows].argmax()])
    return Correction(
        query=row,
        truth=int(study.subject.dataset.query_video[row]),
        negative=int(rivals.negative[row]),
        rank_before=int(base[row]),
        rank_after=int(trace[row]),
        margin_before=float(before[row]),
        margin_after=float(after[row]),
    )


def case(study: Study, videos: Path | None = None) -> ReportSection:
    """One correction. ``videos`` is a folder with the video files, for frames at the peaks."""
    if study.views is None or study.views.truth is None or study.views.negative is None:
        return without_trace("case", TITLE)
    chosen = chosen_case(study)
    if chosen is None:
        return ReportSection("case", TITLE, absent="TRACE improved no rank here, so there is no correction to show.")
    sentence = study.subject.dataset.captions[chosen.query].sentence
    truth = _curves(study, study.views.truth, chosen.query, chosen.truth)
    negative = _curves(study, study.views.negative, chosen.query, chosen.negative)
    drawings = [
        Drawing(
            "case",
            f"“{sentence}”: rank {chosen.rank_before} → {chosen.rank_after}, margin {margin(chosen.margin_before)} → "
            f"{margin(chosen.margin_after)}. ▼ is the peak that plain max picks, ★ the one that TRACE picks.",
            correction_figure(sentence, chosen, truth, negative),
        )
    ]
    lead = (
        "Chosen by rule: of the queries that the base ranks wrongly at the top and TRACE puts right, the one whose "
        "margin over the best wrong video grew most; if there is none, the query whose rank improved most. "
    )
    if videos is None:
        lead += "Where you have the video files, prvr report RUN --videos DIR adds the frames."
    else:
        drawings.append(Drawing("case_frames", "Frames at the peaks.", peak_frames_figure(videos, truth, negative)))
    rows: list[list[Cell]] = [_peaks("ground truth", truth), _peaks("hard negative", negative)]
    columns = [Column("role"), Column("video"), Column("direct peak at", 2), Column("direct", 3), Column("support", 3)]
    columns += [Column("unsupported gap", 3, True), Column("TRACE peak at", 2), Column("routed", 3)]
    unit = "seconds" if truth.duration is not None and negative.duration is not None else "frames"
    return ReportSection(
        "case", TITLE, lead, [ReportTable("case", f"The two videos (times in {unit})", columns, rows)], drawings
    )


def _peaks(role: str, video: EvidenceCurves) -> list[Cell]:
    plain, traced = video.direct_peak, video.routed_peak
    times = video.times(video.duration is not None)
    seen = [
        float(times[plain]),
        float(video.direct[plain]),
        float(video.expected_support[plain]),
        video.unsupported_gap,
    ]
    return [role, video.name, *seen, float(times[traced]), float(video.routed[traced])]


def _curves(study: Study, evidence: PairEvidence, query: int, video: int) -> EvidenceCurves:
    """One query's curves in one video, with times where they are known."""
    dataset = study.subject.dataset
    length, windows = known_times(dataset, query, video)
    return EvidenceCurves.of(evidence, query, dataset.video_ids[video], duration=length, windows=windows)
