"""Sections: the qualitative case, chosen by rule, and all top-rank corrections."""

from __future__ import annotations

import textwrap
from pathlib import Path

from prvr.evaluation.corrections import Correction, candidates
from prvr.evaluation.figures import EvidenceCurves, correction_figure
from prvr.evaluation.findings import Study
from prvr.evaluation.localise import known_times
from prvr.evaluation.report.content import Cell, Column, Drawing, Section, Table, without_trace
from prvr.evaluation.report.drawing import corrections_figure, margin
from prvr.evaluation.report.stills import stills_figure
from prvr.evaluation.significance import signed
from prvr.trace.pairs import PairEvidence

CASE, RESTORED = "One correction", "Top-rank corrections"
SHOWN = 10


def chosen_case(study: Study) -> Correction | None:
    """The correction that shows most, by the rule of ``find_correction``; None where no rank improved."""
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


def pair_curves(study: Study, evidence: PairEvidence, query: int, video: int) -> EvidenceCurves:
    """One query's curves in one video, with times where they are known."""
    length, span = known_times(study.subject.dataset, query, video)
    valid = evidence.direct[query].isfinite()
    return EvidenceCurves(
        name=study.subject.dataset.video_ids[video],
        direct=evidence.direct[query][valid].double().numpy(),
        support=evidence.expected_support[query][valid].double().numpy(),
        routed=evidence.routed[query][valid].double().numpy(),
        activation=evidence.activation[query].double().numpy(),
        duration=length,
        moment=span,
    )


def case(study: Study, videos: Path | None = None) -> Section:
    """``videos``: a folder with the video files, for stills at the peaks."""
    if study.views is None or study.views.truth is None or study.views.negative is None:
        return without_trace("case", CASE)
    chosen = chosen_case(study)
    if chosen is None:
        return Section("case", CASE, absent="TRACE improved no rank here, so there is no correction to show.")
    sentence = study.subject.dataset.captions[chosen.query].sentence
    truth = pair_curves(study, study.views.truth, chosen.query, chosen.truth)
    negative = pair_curves(study, study.views.negative, chosen.query, chosen.negative)
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
        lead += "With the video files at hand, prvr report RUN --videos DIR adds the frames."
    else:
        drawings.append(Drawing("case_frames", "Frames at the peaks.", stills_figure(videos, truth, negative)))
    rows: list[list[Cell]] = [_peaks("ground truth", truth), _peaks("hard negative", negative)]
    columns = [Column("role"), Column("video"), Column("direct peak at", 2), Column("direct", 3), Column("support", 3)]
    columns += [Column("unsupported gap", 3, True), Column("TRACE peak at", 2), Column("routed", 3)]
    unit = "seconds" if truth.duration is not None and negative.duration is not None else "frames"
    return Section("case", CASE, lead, [Table("case", f"The two videos (times in {unit})", columns, rows)], drawings)


def _peaks(role: str, video: EvidenceCurves) -> list[Cell]:
    plain, traced = video.direct_peak, video.routed_peak
    times = video.times(video.duration is not None)
    seen = [float(times[plain]), float(video.direct[plain]), float(video.support[plain]), video.unsupported_gap]
    return [role, video.name, *seen, float(times[traced]), float(video.routed[traced])]


def corrections(study: Study) -> Section:
    if not study.subject.with_trace:
        return without_trace("corrections", RESTORED)
    base, trace, rivals = study.ranks["base"], study.ranks["trace"], study.rivals
    restored, lost = (base > 1) & (trace == 1), (base == 1) & (trace > 1)
    counted = f"{int(restored.sum()):,} put right at the top, {int(lost.sum()):,} put wrong. "
    if not restored.any():
        return Section("corrections", RESTORED, absent=f"{counted}There is nothing to take apart.")
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
    return Section(
        "corrections",
        RESTORED,
        lead,
        [
            Table(
                "corrections",
                "Queries put right at the top",
                columns,
                cells[:SHOWN],
                f"The {len(cells[:SHOWN])} with the largest Δadv; queries.csv has all.",
            )
        ],
        [Drawing("corrections", "Margins before and after, and what made them change.", drawn)],
    )
