"""Evaluate a run: base and TRACE side by side on one split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation.corrections import Correction, find_correction
from prvr.evaluation.curve_moments import known_times
from prvr.evaluation.encoded_split import encode_subject
from prvr.evaluation.figures import EvidenceCurves, correction_figure, save_figure
from prvr.evaluation.finer.answers import Answers
from prvr.evaluation.finer.corpus_moments import Tick, search_moments
from prvr.evaluation.finer.measure import Finer, remove_finer, save_finer
from prvr.evaluation.query_bank import SentenceBank, sentence_bank
from prvr.evaluation.records import EvaluationRecord, save_record
from prvr.evaluation.significance import Comparison, compare_ranks
from prvr.evaluation.subject import Subject, open_subject, witness_ranking
from prvr.scoring import CalibrationQuality, Scores, coverage, known_searches, ranks
from prvr.trace import VerdictScale, aligned_evidence
from prvr.training import Run, TraceModel, read_calibration, split_scores, support_of_first_answers


@dataclass(frozen=True)
class Trust:
    """How true the probabilities and verdicts of a calibrated run are on a split."""

    quality: CalibrationQuality
    verdicts: VerdictScale | None  # the run's scale, with how often answers of this split were right


@dataclass(frozen=True)
class Outcome:
    """The results of an evaluation, and the data needed to inspect them."""

    record: EvaluationRecord
    comparison: Comparison | None  # TRACE against the base branch; None for a run without TRACE
    coverage: dict[str, dict[int, float]]  # where queries have several positives: share of them within k, by scoring
    scores: Scores
    fusion_weight: float  # λ in force
    model: TraceModel
    dataset: Dataset
    selection: str
    folder: Path
    trust: Trust | None = None  # None for a run that is not calibrated, or other weights than its final ones
    finer: Finer | None = None  # where it was asked for
    bank: SentenceBank | None = None  # the sentences of the query-bank correction, where it was asked for
    witness_note: str = ""  # why there is no ranking by the run's witness, or what speaks against trusting it

    @property
    def final_scores(self) -> Tensor:
        return self.scores.final(self.fusion_weight)

    @property
    def witness_changes(self) -> dict[str, Comparison]:
        """What the two parts of a witness change; empty where the run has none."""
        ranked = self.record.ranks
        if "witness" not in ranked:
            return {}
        return {
            "hub offset against base": compare_ranks(ranked["base"], ranked["hubs"]),
            "witness against base with hub offset": compare_ranks(ranked["hubs"], ranked["witness"]),
            "witness against base": compare_ranks(ranked["base"], ranked["witness"]),
        }


def evaluate_run(
    run: Run,
    *,
    data: str | Path | None = None,
    split: str = "test",
    weights: str | None = None,
    device: torch.device | str = "cpu",
    labels: Path | None = None,
    query_bank: bool = False,
    finer: bool = False,
    tick: Tick | None = None,
) -> Outcome:
    """Rank a split with a run's weights and save every query's rank under ``RUN/eval/<split>-<weights>``.

    Columns: ``base`` and ``trace`` (the labelled video), ``backbone`` (before TRACE joined), ``witness`` and ``hubs``
    (the base with the witness's hub offset, without its words; where the run has one), ``base_bank`` and ``trace_bank``
    (with the query-bank correction), and where the data lists several correct videos ``base_any``, ``trace_any`` and so
    on (the best of them).

    Args:
        run: the run.
        data: folder of the dataset, also another one than it was trained on; its own by default.
        split: which split.
        weights: which weights; the run's selection by default.
        device: where to compute.
        labels: a file with all correct videos of each query.
        query_bank: also rank with the correction of ``prvr.evaluation.query_bank``.
        finer: also measure groups of queries, moments in the corpus, mAP, nDCG and hubs.
        tick: called as moments are searched, with the videos done and all videos.
    """
    subject = open_subject(run, data=data, split=split, weights=weights, device=device, labels=labels)
    model, dataset, weight, with_trace = subject.model, subject.dataset, subject.fusion_weight, subject.with_trace
    scores = split_scores(model, dataset, use_trace=with_trace)
    matrices = {"base": scores.base} | ({"trace": scores.final(weight)} if with_trace else {})
    by_witness = witness_ranking(subject)
    if by_witness is not None:
        matrices["witness"] = by_witness.final
    bank = sentence_bank(subject) if query_bank else None
    for name, correction in ({} if bank is None else bank.corrections).items():
        matrices[f"{name}_bank"] = correction.apply(matrices[name])
    truth = dataset.query_video.to(scores.base.device)
    ranked = matrices | ({} if by_witness is None else {"hubs": by_witness.hubs})
    columns = {column: ranks(matrix, truth).cpu() for column, matrix in ranked.items()}
    comparison = compare_ranks(columns["base"], columns["trace"]) if with_trace else None
    alone = backbone_ranks(subject)
    if alone is not None:
        columns["backbone"] = alone
    covered: dict[str, dict[int, float]] = {}
    if subject.several_positives:
        columns |= {f"{column}_any": ranks(matrix, dataset.positives).cpu() for column, matrix in ranked.items()}
        covered = {c: {k: _coverage(subject, m, k) for k in (10, 100)} for c, m in matrices.items()}
    notes = [subject.data.note] if subject.data is not None and subject.data.note else []
    notes += [] if bank is None else [bank.note]
    if labels is not None:
        named = f"{int(subject.judged.sum()):,} of {len(dataset.captions):,} queries"
        notes.append(f"labels: {labels.name}, which names {named}")
    protocol = replace(subject.protocol, notes="; ".join(notes))
    record = EvaluationRecord(dataset.query_ids, subject.owners, columns, protocol)
    folder = run.path / "eval" / subject.name
    remove_finer(folder)
    save_record(record, folder)
    measured = _measure(subject, {name: columns[name] for name in matrices}, matrices, tick) if finer else None
    if measured is not None:
        save_finer(measured, folder)
    return Outcome(
        record=record,
        comparison=comparison,
        coverage=covered,
        scores=scores,
        fusion_weight=weight,
        model=model,
        dataset=dataset,
        selection=subject.selection,
        folder=folder,
        trust=measure_trust(subject, scores),
        finer=measured,
        bank=bank,
        witness_note=_witness_note(subject),
    )


def _witness_note(subject: Subject) -> str:
    """Why there is no ranking by the run's witness, or what speaks against trusting it; empty if nothing does."""
    run, config = subject.run, subject.config
    if not config.witness_stage.steps:
        return ""
    if not run.has_weights("witness"):
        return f"without its witness, which is not trained yet: prvr train --resume {run.path}"
    if subject.weights != config.selection:
        return f"without its witness, which belongs to the weights {config.selection!r}"
    if subject.dataset.split == config.data.validation_split:
        return "hub offset and witness were fitted on this split: rank another one to judge them"
    return ""


def _coverage(subject: Subject, scores: Tensor, k: int) -> float:
    """Over the queries whose correct videos are all known, percent."""
    judged = subject.judged.nonzero().squeeze(1)
    return coverage(scores[judged.to(scores.device)], [subject.dataset.positives[row] for row in judged.tolist()], k)


def _measure(
    subject: Subject, ranked: Mapping[str, Tensor], matrices: Mapping[str, Tensor], tick: Tick | None
) -> Finer:
    dataset = subject.dataset
    answers = {name: Answers.of(matrix, dataset.positives) for name, matrix in matrices.items()}
    searches = {}
    if dataset.moments:
        split = encode_subject(subject, timed=False)
        searches = search_moments(dataset, split, subject.model.trace.config, answers, tick)
    return Finer(subject, ranked, answers, searches)


def measure_trust(subject: Subject, scores: Scores) -> Trust | None:
    """Compare what the run's calibration says of a split with what is true."""
    known = read_calibration(subject.run) if subject.weights == subject.config.selection else None
    calibration = None if known is None else known.trace if subject.with_trace else known.base
    if known is None or calibration is None:
        return None
    final = scores.final(subject.fusion_weight) if subject.with_trace else scores.base
    quality = known_searches(calibration, final.float().cpu().numpy(), subject.dataset.positives).quality
    verdicts = known.verdicts
    if verdicts is not None:
        verdicts = verdicts.on(*support_of_first_answers(subject.model, subject.fusion_weight, subject.dataset))
    return Trust(quality, verdicts)


def backbone_ranks(subject: Subject) -> Tensor | None:
    """Ranks by the backbone before TRACE joined, (Q,); None if the run kept no such weights."""
    if not subject.with_trace or not subject.run.has_weights("backbone"):
        return None
    alone, _ = subject.run.load_model("backbone", subject.device)
    scores = split_scores(alone, subject.dataset, use_trace=False).base
    return ranks(scores, subject.dataset.query_video.to(scores.device)).cpu()


def explained_correction(outcome: Outcome, stem: str | Path) -> tuple[Correction, Path] | None:
    """Draw the correction that the rule picks; None where TRACE improved no rank."""
    base, final = outcome.scores.base, outcome.final_scores
    ranked = outcome.record.ranks
    case = find_correction(ranked["base"], ranked["trace"], base.cpu(), final.cpu(), outcome.dataset.query_video)
    if case is None:
        return None
    dataset, model = outcome.dataset, outcome.model
    device = next(model.parameters()).device
    with torch.no_grad():
        query = dataset.query_batch([case.query]).to(device)
        videos = dataset.video_batch([case.truth, case.negative]).to(device)
        vector = model.backbone.encode_queries(query.tokens, query.mask)
        tokens = model.backbone.encode_video_batch(videos)
        evidence = aligned_evidence(model.trace, vector.float().expand(2, -1), tokens.to(torch.float32)).to("cpu")
    caption = dataset.captions[case.query]
    curves = []
    for row, video in enumerate((case.truth, case.negative)):
        length, windows = known_times(dataset, case.query, video)
        curves.append(EvidenceCurves.of(evidence, row, dataset.video_ids[video], duration=length, windows=windows))
    figure = correction_figure(caption.sentence, case, *curves)
    return case, save_figure(figure, stem)[0]
