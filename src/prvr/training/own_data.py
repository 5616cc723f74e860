"""The configuration for a dataset of one's own: a preset, with names, widths and epochs taken from the data."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from prvr.data import DATASETS, Collection, DataError, find_collections, open_feature_store, read_captions
from prvr.training.config import TrainConfig, load_preset, preset_names

OWN_PRESET = "own"
_OTHER_METHODS = "charades"  # the preset of methods that ship none for one's own data
_PLANNED_VIDEOS = 760  # training videos that the epochs of the preset ``own`` are for
_FEWEST_FRAMES = 16  # slots of the shortest input: a library cuts longer videos into windows of the model's frames
_HELD_OUT = 0.1  # share of the training videos to validate on, where the data has no validation split


def preset_for_data(data: str | Path, method_name: str = "dreamprvr", visual_feature: str | None = None) -> TrainConfig:
    """The preset that suits the dataset in a folder.

    A published dataset gets its own preset. For other ones the preset ``own`` is filled in: collection, widths of the
    features, frames of the longest video (at most the preset's), and as many epochs as the number of videos needs.

    ``visual_feature`` chooses among several.

    Raises:
        DataError: the folder holds no dataset, or several.
    """
    root = Path(data)
    names = find_collections(root)
    if len(names) != 1:
        found = (
            f"several ({', '.join(names)}): give the folder of one" if names else "none: `prvr data make` writes one"
        )
        raise DataError(f"{root} should hold a dataset, and holds {found}.")
    shipped = preset_names(method_name)
    if names[0] in DATASETS and names[0] in shipped:
        return _on_what_is_there(load_preset(names[0], method_name), root)
    config = load_preset(OWN_PRESET if OWN_PRESET in shipped else _OTHER_METHODS, method_name)
    files = Collection.find(root, names[0], visual_feature)
    with open_feature_store(files.video_features) as videos, open_feature_store(files.query_features) as queries:
        longest = max(videos.length(name) for name in videos.ids)
        shape = {"visual_width": videos.width, "query_width": queries.width}
        if config.model.feature_rule != "merged":  # which always fills all slots
            shape["frames"] = min(config.model.frames, max(_FEWEST_FRAMES, longest))
    config = replace(
        config,
        data=replace(config.data, collection=files.name, visual_feature=visual_feature),
        model=replace(config.model, **shape),
        held_out=config.held_out if config.data.validation_split in files.splits else _HELD_OUT,
    )
    if OWN_PRESET not in shipped:
        return config
    train = {caption.video for caption in read_captions(files.captions(config.data.train_split))}
    planned, steps = (math.ceil(videos / config.batch_size) for videos in (_PLANNED_VIDEOS, len(train)))
    return _with_times_the_epochs(config, max(1, round(planned / steps)))


def _on_what_is_there(config: TrainConfig, root: Path) -> TrainConfig:
    """The preset of a published dataset, on other published features where the folder holds only those."""
    files = Collection.find(root, config.data.collection, config.data.visual_feature)
    missing = {*files.visual_feature.split("+")} - {*files.found_features}
    if not missing or len(files.known) != 1:
        return config
    return replace(config, data=replace(config.data, features=files.known[0]))


def _with_times_the_epochs(config: TrainConfig, times: int) -> TrainConfig:
    """The same schedule over several times as many epochs, validated as often as before.

    Patience counts validations, so it spans as large a part of the schedule as before.
    """
    trace = config.trace_stage
    counted = ("epochs", "frozen_epochs", "fusion_start", "fusion_ramp", "warmup_epochs")
    stretched: dict[str, Any] = {name: times * getattr(trace, name) for name in counted}
    return replace(
        config,
        backbone_stage=replace(config.backbone_stage, epochs=times * config.backbone_stage.epochs),
        trace_stage=replace(trace, **stretched),
        model=replace(config.model, hard_negative_epoch=times * config.model.hard_negative_epoch),
        validate_every=times * config.validate_every,
    )
