"""Calibrate a run on its validation split, so that a library made with it can state probabilities.

``calibration.json``, next to the final weights, says how scores with TRACE and without it become probabilities, whether
TRACE's support says anything about an answer being right, and which words the training sentences had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.data import Dataset
from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.scoring import (
    AlignedPairs,
    Calibration,
    Gallery,
    encode_query_batches,
    fit_calibration,
    gallery_evidence,
    score_parts,
)
from prvr.trace import Peaked, VerdictScale
from prvr.training.model import TraceModel
from prvr.training.run import Run, RunError
from prvr.training.validation import split_scores
from prvr.words import split_words

_VERDICT_QUERIES = 2000  # at most: their first answers are looked at token by token
_QUERIES_AT_ONCE = 128


@dataclass(frozen=True)
class RunCalibration:
    """What is known about a run's answers."""

    trace: Calibration | None  # of scores with TRACE
    base: Calibration | None  # of base scores
    verdicts: VerdictScale | None
    words: frozenset[str] = frozenset()  # of the training sentences, in lower case

    def to_dict(self) -> dict[str, Any]:
        parts = {"trace": self.trace, "base": self.base, "verdicts": self.verdicts}
        fields = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        return {**fields, "words": sorted(self.words)}

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> RunCalibration:
        trace, base = (None if fields[name] is None else Calibration.from_dict(fields[name]) for name in _CALIBRATIONS)
        verdicts = None if fields["verdicts"] is None else VerdictScale.from_dict(fields["verdicts"])
        return RunCalibration(trace, base, verdicts, frozenset(fields["words"]))


_CALIBRATIONS = ("trace", "base")


def calibrate_run(run: Run, train: Dataset, validation: Dataset, device: torch.device) -> RunCalibration:
    """Calibrate the final weights of a run and keep the result next to them."""
    model, about = run.load_model(device=device)
    weight = float(about.get("fusion_weight", run.config.trace.fusion_weight))
    found = calibrate(
        model,
        weight if run.config.trace_stage.epochs > 0 else 0.0,
        validation,
        (caption.sentence for caption in train.captions),
    )
    write_whole(_calibration_file(run), json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n")
    return found


def read_calibration(run: Run) -> RunCalibration | None:
    """The calibration of a run's final weights; None if it has none, as runs of older versions."""
    path = _calibration_file(run)
    if not path.exists():
        return None
    try:
        return RunCalibration.from_dict(read_json_object(path))
    except (NotAnObject, KeyError, TypeError, ValueError) as problem:
        raise RunError(f"{path} is damaged ({problem}): restore it from a copy, or delete it") from None


def _calibration_file(run: Run) -> Path:
    return run.path / "weights" / run.config.selection / "calibration.json"


@dataclass(frozen=True)
class Curves(Peaked):
    """Evidence curves of one pair."""

    direct: NDArray[np.float32]
    expected_support: NDArray[np.float32]
    routed: NDArray[np.float32]


def calibrate(model: TraceModel, fusion_weight: float, validation: Dataset, sentences: Iterable[str]) -> RunCalibration:
    """Fit a calibration on a validation split.

    Args:
        fusion_weight: λ; 0: the run has no TRACE.
        validation: queries with all videos that are known to be right.
        sentences: of the training split.
    """
    words = frozenset(word for sentence in sentences for word in split_words(sentence))
    if fusion_weight == 0 or not model.backbone.separable:
        base = split_scores(model, validation, use_trace=False).base
        return RunCalibration(None, fit_calibration(_matrix(base), validation.positives), None, words)
    queries, gallery = _encode(model, validation)
    scores = score_parts(queries, gallery)
    final = scores.final(fusion_weight)
    lifts, right = first_answers(queries, gallery, final, fusion_weight, validation)
    return RunCalibration(
        trace=fit_calibration(_matrix(final), validation.positives),
        base=fit_calibration(_matrix(scores.base), validation.positives),
        verdicts=VerdictScale.fit(lifts, right),
        words=words,
    )


def support_of_first_answers(
    model: TraceModel, fusion_weight: float, dataset: Dataset
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """For some queries of a split, (n,): the lift of TRACE's support in the first answer, and whether it is right."""
    queries, gallery = _encode(model, dataset)
    final = score_parts(queries, gallery).final(fusion_weight)
    return first_answers(queries, gallery, final, fusion_weight, dataset)


def first_answers(
    queries: Tensor, gallery: Gallery, scores: Tensor, fusion_weight: float, dataset: Dataset
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """``support_of_first_answers`` of queries (Q, D) that are encoded and scored, (Q, V)."""
    queries, gallery = queries.cpu(), gallery.to("cpu")  # where evidence of aligned pairs is computed
    best = scores.argmax(1).tolist()
    step = max(1, -(-len(best) // _VERDICT_QUERIES))
    chosen = list(range(0, len(best), step))
    lifts, lengths = [], row_lengths(gallery)
    for begin in range(0, len(chosen), _QUERIES_AT_ONCE):
        rows = chosen[begin : begin + _QUERIES_AT_ONCE]
        videos = [best[row] for row in rows]
        curves = gallery_evidence(AlignedPairs(queries[rows], gallery, videos, fusion_weight)).to("cpu")
        for place, video in enumerate(videos):
            cut = [curves.direct, curves.expected_support, curves.routed]
            lifts.append(Curves(*(curve[place, : lengths[video]].float().numpy() for curve in cut)).support_lift)
    right = [best[row] in dataset.positives[row] for row in chosen]
    return np.array(lifts), np.array(right, bool)


def row_lengths(gallery: Gallery) -> list[int]:
    """Tokens of each row of a gallery, without the empty slots at its end."""
    real = gallery.local.values.ne(0).any(-1).sum(1).cpu()  # (P,)
    counts = torch.cat([torch.zeros(1, dtype=torch.long), real.cumsum(0)])[gallery.first_page].diff()
    lengths: list[int] = counts.tolist()
    return lengths


@torch.no_grad()
def _encode(model: TraceModel, dataset: Dataset) -> tuple[Tensor, Gallery]:
    device = next(model.parameters()).device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=model.bf16):
        queries = encode_query_batches(model.backbone, dataset.query_batches())
        return queries, Gallery.build(model.backbone, model.trace, dataset.video_batches())


def _matrix(scores: Tensor) -> NDArray[np.float32]:
    matrix: NDArray[np.float32] = scores.float().cpu().numpy()
    return matrix
