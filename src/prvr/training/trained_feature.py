"""Which features in a folder are those that a run was trained on, where its configuration leaves that to the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prvr.data import Collection, DataError, collection_folder, has_collection, open_feature_store
from prvr.training.config import TrainConfig

RECORDED = "visual_feature"  # in run.json: the name of the features that the run was created on


def feature_in_use(data: str | Path, config: TrainConfig) -> dict[str, str]:
    """What ``run.json`` keeps about the features that a configuration reads in a folder: their name."""
    names = config.data
    if not has_collection(data, names.collection):
        return {}
    return {RECORDED: Collection.find(data, names.collection, names.visual_feature).visual_feature}


def recorded_feature(record: Mapping[str, Any]) -> str | None:
    """The name that ``run.json`` keeps; None for older runs."""
    kept = record.get(RECORDED)
    return kept if isinstance(kept, str) else None


def find_trained_feature(record: Mapping[str, Any], config: TrainConfig, data: str | Path, run: Path) -> str | None:
    """The name of a run's features in a folder; None where the folder has only one, or not this dataset.

    Older runs did not keep it: then their recipe and the model's width tell which features they were trained on.

    Args:
        record: content of ``run.json``.
        config: what it says about the training.
        data: folder of the dataset.
        run: folder of the run, for the error message.

    Raises:
        DataError: there are several, and nothing says which one it is.
    """
    if not has_collection(data, config.data.collection):
        return None
    kept = recorded_feature(record)
    files = Collection(config.data.collection, collection_folder(Path(data), config.data.collection), "")
    if kept is not None and {*kept.split("+")} <= {*files.found_features}:
        return kept
    try:
        Collection.find(data, files.name)
        return None
    except DataError:
        if len(files.found_features) < 2:
            raise
    fitting = list(_fitting(record, config, data, files)) if kept is None else []
    if len(fitting) == 1:
        return fitting[0]
    trained = f"was trained on {kept}" if kept else "does not say which one it was trained on"
    raise DataError(
        f"{files.folder / 'FeatureData'} holds several features ({', '.join(files.found_features)}), and {run} "
        f'{trained}: write its name there into {run / "run.json"} ("{RECORDED}": "NAME"), or move the others elsewhere.'
    )


def recipe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where two recipes differ: the value before, and now.

    Versions of a decoder, and which pictures were not encoded again, do not count, as for libraries.
    """
    return {
        name: (before[name], now.get(name))
        for name in before
        if name not in ("decoder", "repeats") and before[name] != now.get(name)
    }


def _fitting(record: Mapping[str, Any], config: TrainConfig, data: str | Path, files: Collection) -> Iterator[str]:
    """Features as wide as the model expects and made as the run remembers."""
    before = record.get("features", {}).get("frames")
    for name in files.found_features:
        candidate = Collection.find(data, files.name, name)
        recipe = candidate.recipes.get("frames")
        alike = recipe is None if before is None else recipe is not None and not recipe_changes(before, recipe)
        if "features" in record and not alike:
            continue
        with open_feature_store(candidate.video_features) as store:
            if store.width == config.model.visual_width:
                yield name
