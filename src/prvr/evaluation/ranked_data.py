"""Which dataset a run is evaluated on: the one that it was trained on, or another (cross-dataset)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from prvr.data import Collection, DataError, Dataset, find_collections, has_collection
from prvr.training import Run, TrainConfig, captions_hash, load_split, resolve_config

_UNCHECKED = "could not check that this is the {} of the training: its training captions are not kept, or not here"


@dataclass(frozen=True)
class RankedData:
    """The data to rank."""

    path: str | Path
    config: TrainConfig  # the run's, with the collection and features that are ranked
    trained_on: str = ""  # what the run was trained on, where this is another dataset
    prefix: str = ""  # of the folders that results go to, where this is another dataset
    note: str = ""  # what a reader of the results must know

    def load(self, split: str) -> Dataset:
        """Load a split. Features that the model cannot read raise a ``DataError``."""
        try:
            return load_split(self.config, self.path, split)
        except DataError as problem:
            if not self.trained_on or "model expects" not in str(problem):
                raise
            found = str(problem).partition(": train with")[0]
            raise DataError(
                f"{found}: a run that was trained on {self.trained_on} ranks other data only if frames and words "
                "are as wide as there, that is if the same encoders made them."
            ) from problem


def find_data(run: Run, data: str | Path | None = None) -> RankedData:
    """The data of a run, or that in a folder.

    Another dataset is one of another name, or one of the same name whose training captions differ.

    Raises:
        DataError: the folder holds no dataset, or several of which none is the run's.
    """
    own = run.config.data.collection
    if data is None:
        return RankedData(run.data, run.config_for(run.data))
    if has_collection(data, own) and own in find_collections(Path(data)):
        config = run.config_for(data)
        before, now = run.captions, captions_hash(data, config.data)
        if before is None or now is None:
            return RankedData(data, config, note=_UNCHECKED.format(own))
        if before != now:
            return RankedData(data, config, f"another {own}", _as_prefix(Path(data).resolve().name))
        return RankedData(data, config)
    names = find_collections(Path(data))
    if len(names) != 1:
        found = f"{', '.join(names)}: give the folder of one" if names else "no dataset"
        raise DataError(f"{data} holds {found}. The run was trained on {own}, which is not there.")
    return RankedData(data, _with_collection(run, data, names[0]), own, _as_prefix(names[0]))


def _with_collection(run: Run, data: str | Path, name: str) -> TrainConfig:
    """A run's configuration for another collection: the feature of the same name there, or its usual or only one."""
    config, wanted = run.config, run.visual_feature or ""
    folder = Collection.find(data, name, wanted).folder / "FeatureData"
    named = dict.fromkeys([wanted, wanted.replace(config.data.collection, name)])  # charades_clip_L14 → tvr_clip_L14
    kept = next((feature for feature in named if feature and any(folder.glob(f"{feature}*"))), None)
    changed = replace(config, data=replace(config.data, collection=name, visual_feature=kept))
    return replace(resolve_config(changed, data), model=config.model) if config.data.features else changed


def _as_prefix(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name) + "-"
