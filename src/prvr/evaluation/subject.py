"""What is evaluated: a run's weights, the split they rank, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.data import Collection, DataError, Dataset, read_positives
from prvr.evaluation.ranked_data import RankedData, find_data
from prvr.evaluation.records import EvaluationProtocol
from prvr.training import Run, TraceModel, TrainConfig, WitnessScores, load_run_witness, move_if_it_fits

_BEFORE_TRACE = ("backbone", "backbone-best", "start")  # weights whose TRACE has learned nothing yet


@dataclass(frozen=True)
class Subject:
    """A trained model and a split to rank."""

    run: Run
    config: TrainConfig
    model: TraceModel
    dataset: Dataset
    weights: str  # average, best, last, backbone; of an unfinished training also backbone-best, start
    selection: str  # how they were chosen, in words
    with_trace: bool
    fusion_weight: float  # λ in force
    labelled: Tensor | None = None  # (Q,) bool: queries that a label file given by hand names; None without one
    data: RankedData | None = None  # where the split is from; None for one that was made by hand

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def protocol(self) -> EvaluationProtocol:
        seeds = (self.config.seed,)
        return EvaluationProtocol(
            self.dataset.collection, self.dataset.split, self.selection, seeds, trained_on=self.trained_on
        )

    @property
    def trained_on(self) -> str:
        """The dataset that the run was trained on, where another one is ranked; otherwise an empty word."""
        return "" if self.data is None else self.data.trained_on

    @property
    def ranked(self) -> str:
        """Dataset and split in words."""
        name = f"{self.dataset.collection} {self.dataset.split}"
        return f"{name} (cross-dataset: trained on {self.trained_on})" if self.trained_on else name

    @property
    def name(self) -> str:
        """Split and weights, and the dataset if it is another one: the folder that results of this evaluation go to."""
        return f"{'' if self.data is None else self.data.prefix}{self.dataset.split}-{self.weights}"

    @property
    def owners(self) -> tuple[str, ...]:
        """The labelled video of each query."""
        return tuple(self.dataset.video_ids[row] for row in self.dataset.query_video.tolist())

    @property
    def judged(self) -> Tensor:
        """The queries whose correct videos are all known, (Q,) bool: what several positives are counted over."""
        everything = torch.ones(len(self.dataset.captions), dtype=torch.bool)
        return everything if self.labelled is None else self.labelled

    @property
    def several_positives(self) -> bool:
        return any(len(positives) > 1 for positives in self.dataset.positives)


def open_subject(
    run: Run,
    *,
    data: str | Path | None = None,
    split: str = "test",
    weights: str | None = None,
    device: torch.device | str = "cpu",
    labels: Path | None = None,
) -> Subject:
    """Load a run's weights and the split to rank; ``labels`` lists all correct videos of each query.

    ``data`` may hold another dataset than the one that the run was trained on, with features of the same widths.
    """
    config, device = run.config, torch.device(device)
    place, name = find_data(run, data), weights or config.selection
    run.require_same_features(place.path, place.config.data)
    dataset = move_if_it_fits(place.load(available_split(place.config, place.path, split)), device)
    known = None
    if labels is not None:
        dataset, known = with_labels(dataset, labels)
    model, about = run.load_model(name, device)
    return Subject(
        run=run,
        config=config,
        model=model,
        dataset=dataset,
        weights=name,
        selection=describe_weights(name, about, config),
        with_trace=config.trace_stage.epochs > 0 and name not in _BEFORE_TRACE,
        # A best epoch may precede the full λ.
        fusion_weight=float(about.get("fusion_weight", config.trace.fusion_weight)),
        labelled=known,
        data=place,
    )


def witness_ranking(subject: Subject) -> WitnessScores | None:
    """The split, scored by the run's witness; None where it has none, or for other weights."""
    kept = load_run_witness(subject.run, subject.device) if subject.weights == subject.config.selection else None
    return None if kept is None else kept.scores(subject.model, subject.dataset)


def with_labels(dataset: Dataset, path: Path) -> tuple[Dataset, Tensor]:
    """The split with the correct videos that a label file lists, and which queries it lists, (Q,) bool.

    A query that the file does not name keeps what it had; its own video is always correct.
    """
    listed = read_positives(path, dataset.collection)
    row_of = {video: row for row, video in enumerate(dataset.video_ids)}
    positives = []
    for caption, own, before in zip(dataset.captions, dataset.query_video.tolist(), dataset.positives, strict=True):
        rows = {row_of[video] for video in listed.get(caption.id, ()) if video in row_of}
        positives.append(tuple(sorted(rows | {own})) if caption.id in listed else before)
    named = torch.tensor([caption.id in listed for caption in dataset.captions])
    if not named.any():
        raise DataError(f"{path} names none of the {len(named):,} queries of {dataset.split}: is it for another split?")
    return replace(dataset, positives=positives), named


def available_split(config: TrainConfig, data: str | Path, split: str) -> str:
    """The requested split; where a collection has no test captions, the validation split."""
    c = config.data
    has_test = "test" in Collection.find(data, c.collection, c.visual_feature).splits
    return c.validation_split if split == "test" and not has_test else split


def describe_weights(name: str, about: dict[str, Any], config: TrainConfig) -> str:
    """How the weights were chosen, in words."""
    if "imported_from" in about:
        return f"the authors' {about['imported_from']}"
    if about.get("untrained"):
        return "nothing was trained"
    if name == "average":
        epochs = [epoch + 1 for epoch in about["epochs"]]
        return f"mean of the weights of epochs {', '.join(map(str, epochs))}"
    if name in ("best", "backbone-best"):
        where = "a held-out part of training" if config.held_out else f"the {config.data.validation_split} split"
        early = (
            name == "best"
            and about.get("fusion_weight") == 0
            and config.trace_stage.epochs
            and config.trace.fusion_weight
        )
        before = ", before TRACE entered the score (λ = 0): it ranks as the base branch does" if early else ""
        so_far = " so far" if name == "backbone-best" else ""  # of a training that was interrupted
        return f"epoch {about['epoch'] + 1}, the best{so_far} on {where}{before}"
    if "started_from" in about:
        return f"the backbone of {about['started_from']}, which training started from"
    if name == "backbone":
        return f"end of the backbone phase (epoch {about['epoch'] + 1})"
    return f"epoch {about['epoch'] + 1}, the last"
