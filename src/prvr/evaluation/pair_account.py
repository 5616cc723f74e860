"""Why one query matches one video of a split: the evidence of a single pair, ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.data import DataError, Dataset
from prvr.evaluation.curve_moments import known_times
from prvr.evaluation.figures import EvidenceCurves
from prvr.evaluation.subject import Subject
from prvr.trace import Explanation, aligned_evidence
from prvr.training import load_run_witness
from prvr.words import word_names


@dataclass(frozen=True)
class PairAccount:
    """One pair, ready to be shown."""

    sentence: str
    query_id: str
    video_id: str
    is_truth: bool
    base: float
    curve: list[float]  # the backbone's own cosine of query and frame
    explanation: Explanation | None  # None without TRACE
    curves: EvidenceCurves | None
    final: float
    words: dict[str, list[float]] = field(default_factory=dict)  # what each word sees over time; with a witness only
    explained: dict[str, float] = field(default_factory=dict)  # how well the video explains it, 1 at best


def find_query(dataset: Dataset, text: str) -> int:
    """The row of a query by its id, or by (part of) its sentence where only one has it."""
    for row, caption in enumerate(dataset.captions):
        if caption.id == text:
            return row
    words = text.casefold().strip()
    whole = [row for row, caption in enumerate(dataset.captions) if caption.sentence.casefold().strip() == words]
    found = whole or [row for row, caption in enumerate(dataset.captions) if words in caption.sentence.casefold()]
    if len(found) == 1:
        return found[0]
    matches = "; ".join(f"{dataset.captions[row].id}: {dataset.captions[row].sentence}" for row in found[:5])
    if found:
        raise DataError(f"{len(found)} queries of {dataset.split} match {text!r}; give one id. {matches}")
    raise DataError(
        f"no query of {dataset.split} is or contains {text!r}. Queries are those whose word features the dataset "
        f"holds, for example {dataset.captions[0].id}: {dataset.captions[0].sentence}"
    )


def find_video(dataset: Dataset, name: str) -> int:
    """The row of a video by its id."""
    if name in dataset.video_ids:
        return dataset.video_ids.index(name)
    alike = [video for video in dataset.video_ids if name.casefold() in video.casefold()][:5]
    hint = f"; did you mean {', '.join(alike)}?" if alike else f", whose first is {dataset.video_ids[0]}"
    raise DataError(f"no video {name!r} among the {len(dataset):,} of {dataset.split}{hint}")


@torch.no_grad()
def pair_account(subject: Subject, query: int, video: int, *, words: bool = True) -> PairAccount:
    """Encode one query and one video, and collect the parts of the pair's score.

    ``words``: also what each word sees, where the run has a witness.
    """
    dataset, model = subject.dataset, subject.model
    asked = dataset.query_batch([query]).to(subject.device)
    vector = model.backbone.encode_queries(asked.tokens, asked.mask)
    tokens = model.backbone.encode_video_batch(dataset.video_batch([video]).to(subject.device))
    base = float(model.backbone.base_score(vector, tokens))
    tokens = tokens.to(torch.float32)
    if vector.ndim == 2:
        unit = F.normalize(tokens.evidence, dim=-1)[0]
        found: Tensor | None = unit @ F.normalize(vector.float(), dim=-1)[0]
    else:
        by_words = model.backbone.word_curve(vector.float(), tokens)
        found = None if by_words is None else by_words[0, 0]
    if found is None:
        raise DataError(f"{subject.config.method} compares words with videos: it has no curve over frames to show")
    curve = found[tokens.evidence_mask[0]].tolist()
    caption, name = dataset.captions[query], dataset.video_ids[video]
    explanation = curves = None
    final = base
    if subject.with_trace:
        evidence = aligned_evidence(model.trace, vector.float(), tokens).to("cpu")
        config = replace(model.trace.config, fusion_weight=subject.fusion_weight)
        explanation = Explanation.of(evidence, 0, base, config)
        final = explanation.final
        length, windows = known_times(dataset, query, video)
        curves = EvidenceCurves.of(evidence, 0, name, duration=length, windows=windows)
    truth = int(dataset.query_video[query]) == video
    seen, explained = _word_evidence(subject, query, video) if words else ({}, {})
    return PairAccount(
        caption.sentence, caption.id, name, truth, base, curve, explanation, curves, final, seen, explained
    )


def _word_evidence(subject: Subject, query: int, video: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """What each word sees in each frame, and how well it is explained; empty for a run without a witness."""
    witness = load_run_witness(subject.run, subject.device) if subject.weights == subject.config.selection else None
    if witness is None:
        return {}, {}
    data = subject.dataset
    words, frames = data.query_batch([query]).to(subject.device), data.video_batch([video]).to(subject.device)
    found = witness.evidence(subject.model, words, frames)
    names = word_names(data.captions[query].sentence, words.tokens.shape[1])
    curves = found.evidence[0, 0][:, frames.frame_mask[0].bool()].tolist()
    return dict(zip(names, curves, strict=True)), dict(zip(names, found.explained[0, 0].tolist(), strict=True))
