"""Sections: clip–frame agreement, and moments from the evidence curve."""

from __future__ import annotations

import torch
from torch import Tensor

from prvr.evaluation.curve_moments import IOU_TOLERANCE, RANKS
from prvr.evaluation.findings import Study
from prvr.evaluation.report.content import Cell, Column, ReportSection, ReportTable

AGREE, MOMENTS = "Clip–frame agreement", "Moments from the evidence curve"
THRESHOLDS = (0.3, 0.5, 0.7)
CURVES = {  # labels of the curves
    "base": "base: cos(q, f)",
    "direct": "direct: d",
    "trace": "TRACE: d + γρ",
    "whole": "the whole video",
}


def clip_of_frame(frame: Tensor, frames: Tensor, clips: int) -> Tensor:
    """The clip whose stretch of time holds the middle of a frame; (N,), (N,) frames per video → (N,).

    >>> clip_of_frame(torch.tensor([0, 9, 4]), torch.tensor([10, 10, 5]), clips=2)
    tensor([0, 1, 1])
    """
    return torch.div((2 * frame + 1) * clips, 2 * frames, rounding_mode="floor")


def agrees(frame: Tensor, frames: Tensor, clip: Tensor, clips: int, *, within: int = 0) -> Tensor:
    """Whether the best frame is in the best clip, or at most ``within`` clips away, (N,) bool."""
    return (clip_of_frame(frame, frames, clips) - clip).abs() <= within


def agreement_flags(study: Study) -> dict[str, Tensor]:
    """By curve, whether its best frame is in the best clip, (Q,) bool."""
    views = study.views
    if views is None or views.clip is None:
        return {}
    return {
        name: agrees(curve.argmax(1), views.frames, views.clip, views.clips) for name, curve in study.curves.items()
    }


def agreement(study: Study) -> ReportSection:
    views = study.views
    if views is None or views.clip is None:
        return ReportSection(
            "agreement", AGREE, absent="This method has no two branches of clips and frames in time order to compare."
        )
    rows: list[list[Cell]] = []
    for name, curve in study.curves.items():
        shares = [
            100.0 * float(agrees(curve.argmax(1), views.frames, views.clip, views.clips, within=k).double().mean())
            for k in (0, 1)
        ]
        rows.append([CURVES[name], *shares])
    columns = [Column("best frame by"), Column("in the best clip, %"), Column("at most one clip away, %")]
    note = "Published for max pooling on three datasets: 28.8, 48.6 and 38.5 %. By chance: about " + (
        f"{100 / views.clips:.1f} %."
    )
    lead = (
        "How often the best clip and the best frame of a query's own video lie at the same time: the middle of the "
        f"frame falls into the clip's stretch (1/{views.clips} of the video). TRACE changes the frame only."
    )
    return ReportSection("agreement", AGREE, lead, [ReportTable("agreement", AGREE, columns, rows, note)])


def moments(study: Study) -> ReportSection:
    if study.views is None:
        return ReportSection(
            "moments", MOMENTS, absent="This method compares words with videos: it has no curve over frames."
        )
    queries, found = study.moments.rows, study.moments.of
    if not queries:
        return ReportSection(
            "moments", MOMENTS, absent="Start and end of the queries' moments are not known (*.moments.jsonl)."
        )
    rows: list[list[Cell]] = [
        [
            CURVES[name],
            *(100.0 * float((values[:, k] >= t - IOU_TOLERANCE).mean()) for k in range(len(RANKS)) for t in THRESHOLDS),
            float(values[:, 0].mean()),
        ]
        for name, values in found.items()
    ]
    columns = [Column("curve"), *(Column(f"R@{k}, IoU {t}") for k in RANKS for t in THRESHOLDS), Column("mean IoU", 3)]
    lead = (
        f"{len(queries):,} queries with a known moment, each in its own video. Every stretch of frames is a candidate, "
        "scored by how well it splits the curve in two (mean inside minus mean outside, Otsu's weight); the next ones "
        "overlap none before them by more than half. The whole video as the answer is the control."
    )
    return ReportSection(
        "moments", MOMENTS, lead, [ReportTable("moments", "Moment retrieval in the right video (%)", columns, rows)]
    )
