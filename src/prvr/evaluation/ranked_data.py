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
    files = Collection.find(data, name, wanted)
    named = dict.fromkeys([wanted, wanted.replace(config.data.collection, name)])  # charades_clip_L14 → tvr_clip_L14
    found = {*files.found_features}
    kept = next((feature for feature in named if feature and {*feature.split("+")} <= found), None)
    changed = replace(config, data=replace(config.data, collection=name, visual_feature=kept))
    if config.data.features:
        return replace(resolve_config(changed, data), model=config.model)
    if kept is None:
        _require_one_feature(run, data, files)
    return changed


def _require_one_feature(run: Run, data: str | Path, files: Collection) -> None:
    """Refuse to choose among features of which none is named as those that a run was trained on."""
    try:
        Collection.find(data, files.name)
    except DataError:
        if len(files.found_features) < 2:
            raise
        trained = f"was trained on {run.visual_feature}" if run.visual_feature else "does not say which one it reads"
        raise DataError(
            f"{files.folder / 'FeatureData'} holds several features ({', '.join(files.found_features)}), and "
            f"{run.path} {trained}: keep the one that was made in the same way there, and move the others elsewhere."
        ) from None


def _as_prefix(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name) + "-"
