"""Runs with the ranks of all their queries: read from what ``prvr eval`` keeps, or ranked now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from prvr.data import Collection, DataError, has_collection
from prvr.evaluation.evaluate import evaluate_run
from prvr.evaluation.records import RANKS_FILE, EvaluationRecord, load_record
from prvr.evaluation.subject import available_split
from prvr.training import SWEEP_FILE, SWEPT, Run, RunError, TrainConfig, sweep_runs


@dataclass(frozen=True)
class EvaluatedRun:
    """A run and the ranks of a split's queries."""

    run: Run
    config: TrainConfig
    label: str  # its method, or what its sweep calls it
    dataset: str  # its collection, or what its sweep calls it
    feature: str | None  # visual features, where they are known
    weights: str  # which were ranked
    record: EvaluationRecord
    folder: Path  # of the record

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def split(self) -> str:
        return self.record.protocol.split


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Runs and sweeps as a list of runs, and sentences about those of sweeps that are left out.

    Args:
        paths: folders of runs and of sweeps. A folder that is given twice counts once.

    Raises:
        RunError: a folder is neither.
    """
    found: dict[Path, Run] = {}
    notes = []
    for path in paths:
        runs = [Run(path)]
        if (path / SWEEP_FILE).is_file():
            runs, open_ones = sweep_runs(path)
            if not runs:
                raise RunError(f"no run of {path} is finished: train them with `prvr sweep` first")
            if open_ones:
                names = ", ".join(run.path.name for run in open_ones)
                notes.append(
                    f"Not finished and left out of {path}: {names}. The same `prvr sweep` command trains them."
                )
        elif not (path / "run.json").is_file():
            inside = path.parent if (path.parent / SWEEP_FILE).is_file() else None
            hint = f"; `prvr compare {inside}` takes all runs of that sweep" if inside else ""
            raise RunError(f"{path} is neither a run (run.json) nor a sweep ({SWEEP_FILE}){hint}")
        found |= {run.path.resolve(): run for run in runs}
    return list(found.values()), notes


def evaluated_run(
    run: Run, *, split: str = "test", weights: str | None = None, device: torch.device | None = None
) -> EvaluatedRun | None:
    """A run with its ranks. They are read where they were kept and the weights are not newer; else ranked.

    Args:
        device: where to rank; None: nothing is ranked, and what was kept is taken as it is.

    Returns:
        None if there are no ranks and none may be made.

    Raises:
        RunError: it has to be ranked, and its data is gone.
    """
    config = run.config
    name = weights or config.selection
    folder = _folder(run, config, split, name)
    if device is not None and not _is_fresh(folder, run, name):
        _require_rankable(run, config, folder, split)
        folder = evaluate_run(run, split=split, weights=weights, device=device).folder
    if not (folder / RANKS_FILE).exists():
        return None
    swept = run.record.get(SWEPT, {})
    return EvaluatedRun(
        run=run,
        config=config,
        label=str(swept.get("label", config.method)),
        dataset=str(swept.get("dataset", config.data.collection)),
        feature=run.visual_feature or _feature_here(run, config),
        weights=name,
        record=load_record(folder),
        folder=folder,
    )


def is_evaluated(run: Run, split: str, weights: str | None) -> bool:
    """Whether ``evaluated_run`` finds ranks that are up to date."""
    config = run.config
    name = weights or config.selection
    return _is_fresh(_folder(run, config, split, name), run, name)


def found_data(run: Run, config: TrainConfig) -> str | None:
    """The folder of a run's data; None where it is gone, or was never here, as that of a run from a hub."""
    place = run.record.get("data")
    return place if isinstance(place, str) and has_collection(place, config.data.collection) else None


def _is_fresh(folder: Path, run: Run, weights: str) -> bool:
    """Whether a folder's ranks are not older than what ranked them; a witness belongs to the run's own selection."""
    names = [weights, "witness"] if weights == run.config.selection else [weights]
    models = [run.path / "weights" / name / "model.safetensors" for name in names]
    newest = max((model.stat().st_mtime for model in models if model.exists()), default=0.0)
    ranks = folder / RANKS_FILE
    return ranks.exists() and ranks.stat().st_mtime >= newest


def _require_rankable(run: Run, config: TrainConfig, folder: Path, split: str) -> None:
    if found_data(run, config) is None:
        kept = ", or --no-eval takes the ranks that were kept" if (folder / RANKS_FILE).exists() else ""
        place = run.record.get("data", "its run.json names none")
        raise RunError(
            f"the data of {run.path} is not here ({place}), so it cannot be ranked: "
            f"`prvr eval {run.path} --split {split} --data FOLDER` first{kept}"
        )


def _folder(run: Run, config: TrainConfig, split: str, weights: str) -> Path:
    """Where ranks of a split are kept: those of validation where the data has no test captions.

    If the data is gone, what was kept tells.
    """
    splits = [split, config.data.validation_split] if split == "test" else [split]
    place = found_data(run, config)
    if place is not None:
        with suppress(DataError):
            splits = [available_split(run.config_for(place), place, split)]
    folders = [run.path / "eval" / f"{name}-{weights}" for name in splits]
    return next((folder for folder in folders if (folder / RANKS_FILE).exists()), folders[0])


def _feature_here(run: Run, config: TrainConfig) -> str | None:
    place = found_data(run, config)
    if place is None:
        return None
    try:
        names = run.config_for(place).data
        return Collection.find(place, names.collection, names.visual_feature).visual_feature
    except DataError:
        return None
