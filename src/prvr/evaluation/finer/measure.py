"""All finer measures of one evaluation, and the files that hold what each number was computed from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from prvr.evaluation.finer.answers import Answers
from prvr.evaluation.finer.corpus_moments import IOUS, PREDICTIONS, STRETCHES, VIDEOS, MomentSearch
from prvr.evaluation.finer.groups import RATIO_EDGES, kind_groups, moment_ratios, query_kinds, ratio_bins
from prvr.evaluation.finer.hubs import WITHIN, Hubness
from prvr.evaluation.finer.relevance import Relevance
from prvr.evaluation.records import write_columns
from prvr.evaluation.subject import Subject
from prvr.files import whole_file, write_whole
from prvr.scoring import recalls

SUMMARY_FILE, QUERIES_FILE = "finer.json", "queries.csv"
MOMENTS_FILE, PREDICTIONS_FILE = "moments.csv", "predictions.jsonl.gz"
FORMAT = "prvr-finer/1"


@dataclass(frozen=True)
class Finer:
    """What a split says beyond its recalls; by scoring (base, trace, …) wherever scorings differ."""

    subject: Subject
    ranks: Mapping[str, Tensor]  # (Q,) of the labelled video
    answers: Mapping[str, Answers]
    searches: Mapping[str, MomentSearch] = field(default_factory=dict)  # empty where moments or curves are not known
    edges: Sequence[float] = RATIO_EDGES
    searched: bool = True  # whether moments were searched at all

    @cached_property
    def ratios(self) -> Tensor:
        """Moment-to-video ratio of each query, (Q,); NaN where it is not known."""
        return moment_ratios(self.subject.dataset)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What each query is about, as the dataset says it."""
        return query_kinds(self.subject.dataset)

    @property
    def bins(self) -> dict[str, Tensor]:
        """Queries by ratio, (Q,) bool each; empty bins are left out."""
        return {name: rows for name, rows in ratio_bins(self.ratios, self.edges).items() if rows.any()}

    @property
    def kind_groups(self) -> dict[str, Tensor]:
        """Queries by type, (Q,) bool each; empty where the dataset has none."""
        return kind_groups(self.kinds)

    @cached_property
    def relevance(self) -> dict[str, Relevance]:
        """mAP, nDCG and coverage by scoring, over queries whose correct videos are all known."""
        judged = self.subject.judged.nonzero().squeeze(1).tolist()
        return {
            name: Relevance.of([answers.positives[row] for row in judged]) for name, answers in self.answers.items()
        }

    @cached_property
    def hubness(self) -> dict[str, Hubness]:
        """By scoring."""
        data = self.subject.dataset
        return {
            name: Hubness.of(answers, data.video_ids, data.positives, data.query_video)
            for name, answers in self.answers.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        return {
            "format": FORMAT,
            "ratio": {"edges": list(self.edges), "bins": self._grouped(self.bins)},
            "types": self._grouped(self.kind_groups),
            "positives": {name: found.as_dict() for name, found in self.relevance.items()},
            "hubs": {name: found.as_dict() for name, found in self.hubness.items()},
            "moments": {
                "videos": VIDEOS,
                "stretches": STRETCHES,
                "predictions": PREDICTIONS,
                **{name: {"queries": len(s.rows), **s.as_dict()} for name, s in self.searches.items()},
            },
        }

    def _grouped(self, groups: Mapping[str, Tensor]) -> dict[str, Any]:
        """Recalls of groups of queries, by group and scoring."""
        return {
            group: {name: recalls(column[rows]).as_dict() for name, column in self.ranks.items()}
            for group, rows in groups.items()
        }

    def columns(self) -> dict[str, Sequence[object]]:
        """Every query's numbers, from which all measures can be computed again."""
        data = self.subject.dataset
        found: dict[str, Sequence[object]] = {}
        if any(self.kinds):
            found["type"] = self.kinds
        if self.bins:
            found["ratio"] = ["" if ratio != ratio else ratio for ratio in self.ratios.tolist()]
        if self.subject.labelled is not None:
            found["judged"] = self.subject.judged.long().tolist()
        for name, answers in self.answers.items():
            found[f"{name}_positive_ranks"] = [" ".join(map(str, places)) for places in answers.positives]
            top = answers.top[:, :WITHIN].tolist()
            found[f"{name}_top{WITHIN}"] = [" ".join(data.video_ids[row] for row in line) for line in top]
        return found

    def moment_columns(self) -> dict[str, Sequence[object]]:
        """Per query, scoring and IoU: the rank of the first right prediction; 0: none, empty: no known moment."""
        found: dict[str, Sequence[object]] = {}
        for name, search in self.searches.items():
            for iou in IOUS:
                for what, first in (("vcmr", search.first_right(iou)), ("svmr", search.first_own(iou))):
                    cells: list[object] = [""] * len(self.subject.dataset.captions)
                    for row, place in zip(search.rows.tolist(), first.tolist(), strict=True):
                        cells[row] = place
                    found[f"{name}_{what}_{iou:g}"] = cells
        return found


def save_finer(finer: Finer, folder: Path) -> None:
    """Write the numbers (finer.json), every query's (queries.csv), and the predicted moments where there are any."""
    write_whole(folder / SUMMARY_FILE, json.dumps(finer.as_dict(), indent=2, ensure_ascii=False) + "\n")
    write_columns(folder / QUERIES_FILE, {**_names(finer), **finer.columns()})
    save_moments(finer, folder)


def _names(finer: Finer) -> dict[str, Sequence[object]]:
    return {"query_id": finer.subject.dataset.query_ids, "video_id": finer.subject.owners}


def save_moments(finer: Finer, folder: Path) -> None:
    """Write moments.csv, and predicted moments as JSON lines.

    A line holds query_id, scoring, and predictions of video, start and end (shares of the video), and score. Shares
    have all their digits, so that overlaps can be computed again.
    """
    if not finer.searches:
        (folder / MOMENTS_FILE).unlink(missing_ok=True)
        (folder / PREDICTIONS_FILE).unlink(missing_ok=True)
        return
    write_columns(folder / MOMENTS_FILE, {**_names(finer), **finer.moment_columns()})
    data, lines = finer.subject.dataset, []
    for name, search in finer.searches.items():
        parts = (search.video, search.start, search.end, search.score)
        for row, *cells in zip(search.rows.tolist(), *(part.tolist() for part in parts), strict=True):
            found = [
                [data.video_ids[video], start, end, round(score, 6)]
                for video, start, end, score in zip(*cells, strict=True)
                if score > float("-inf")
            ]
            about = {"query_id": data.captions[row].id, "scoring": name, "predictions": found}
            lines.append(json.dumps(about, ensure_ascii=False))
    with whole_file(folder / PREDICTIONS_FILE) as path:
        path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), compresslevel=4, mtime=0))


def remove_finer(folder: Path) -> None:
    """Remove the files of an earlier evaluation, which may be of other weights."""
    for name in (SUMMARY_FILE, QUERIES_FILE, MOMENTS_FILE, PREDICTIONS_FILE):
        (folder / name).unlink(missing_ok=True)
