"""The data of a run: its splits, in the shape that the model expects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from prvr.data import Collection, DataError, Dataset, has_collection, known_feature, open_feature_store
from prvr.training.config import DataConfig, TrainConfig


class Splits(NamedTuple):
    """What a run is trained and validated on."""

    train: Dataset
    validation: Dataset
    validated_on: str  # the validation data's name in reports

    @property
    def fingerprint(self) -> str:
        """A hash of the names of videos and queries, in order; a resumed run must find the same."""
        names = [name for part in (self.train, self.validation) for name in (*part.video_ids, *part.query_ids)]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def captions_hash(data: str | Path, names: DataConfig) -> str | None:
    """The sha256 of a dataset's training captions; None where a folder does not have them."""
    if not has_collection(data, names.collection):
        return None
    files = Collection.find(data, names.collection, names.visual_feature or "any")
    if names.train_split not in files.splits:
        return None
    return hashlib.sha256(files.captions(names.train_split).read_bytes()).hexdigest()


def load_split(config: TrainConfig, data: str | Path, split: str) -> Dataset:
    """Load a split, resampled as the model expects it. Features of another width raise a ``DataError``."""
    c, model = config.data, config.model
    dataset = Dataset.load(
        data,
        c.collection,
        split,
        visual_feature=c.visual_feature,
        clips=model.clips,
        frames=model.frames,
        words=model.words,
        rule=model.feature_rule,
        caption_slots=model.auxiliary_captions,
    )
    widths = [("visual_width", dataset.visual_width), ("query_width", dataset.query_width)]
    if dataset.auxiliary is not None:
        widths.append(("query_width", dataset.auxiliary.width))
    require_widths(config, data, widths)
    return dataset


def require_widths(config: TrainConfig, data: str | Path, widths: Iterable[tuple[str, int]]) -> None:
    """Refuse features of other widths than the model's, given by ``visual_width`` and ``query_width``."""
    c, model = config.data, config.model
    wrong = {name: found for name, found in widths if found != getattr(model, name)}
    if wrong:
        have = " and ".join(f"{name.replace('_', ' ')} {found}" for name, found in wrong.items())
        flags = " ".join(f"--model.{name.replace('_', '-')} {found}" for name, found in wrong.items())
        raise DataError(
            f"the {c.collection} features in {data} have {have}, but the model expects "
            f"{' and '.join(str(getattr(model, name)) for name in wrong)}: train with {flags}, "
            "or use the features that the model expects"
        )


def resolve_config(config: TrainConfig, data: str | Path) -> TrainConfig:
    """Decide what the configuration leaves to the data.

    Features that are named by their short name get the name of their files and their widths. Auxiliary captions are
    read where the data has them.
    """
    config = _with_features(config, data)
    if getattr(config.model, "captions", False) is not None:
        return config
    collection = Collection.find(data, config.data.collection, config.data.visual_feature)
    changed: dict[str, Any] = {"captions": collection.caption_features is not None}
    return replace(config, model=replace(config.model, **changed))


def _with_features(config: TrainConfig, data: str | Path) -> TrainConfig:
    if config.data.features is None:
        return config
    feature = known_feature(config.data.features)
    files = Collection.find(data, config.data.collection, feature.name)
    name = files.files_of(feature)
    if name is None:
        expected = ", ".join(dict.fromkeys(each.frames.format(files.name) for each in feature.files))
        found = ", ".join(files.found_features) or "nothing"
        raise DataError(f"{files.features.parent} holds no {feature.name} features ({expected}); found: {found}.")
    files = replace(files, visual_feature=name)
    visual, query = feature.visual_width, feature.query_width
    if visual is None or query is None:  # nothing verified is published about it
        with open_feature_store(files.video_features) as videos, open_feature_store(files.query_features) as queries:
            visual, query = videos.width, queries.width
    widths: dict[str, Any] = {"visual_width": visual, "query_width": query}
    return replace(config, data=replace(config.data, visual_feature=name), model=replace(config.model, **widths))


def training_splits(config: TrainConfig, data: str | Path) -> Splits:
    """The training split and the validation split; with ``held_out``, both are parts of the training split."""
    train = load_split(config, data, config.data.train_split)
    if config.held_out == 0:
        return Splits(train, load_split(config, data, config.data.validation_split), config.data.validation_split)
    order = torch.from_numpy(np.random.default_rng((config.seed, len(train))).permutation(len(train)))
    kept = max(1, round(config.held_out * len(train)))
    return Splits(train.subset(order[kept:].sort().values), train.subset(order[:kept].sort().values), "held-out")


def move_if_it_fits(dataset: Dataset, device: torch.device, share: float = 0.4) -> Dataset:
    """Put a split's features on a GPU if they take up less than ``share`` of its free memory."""
    if device.type != "cuda":
        return dataset
    free, _ = torch.cuda.mem_get_info(device)
    tables: tuple[Tensor, ...] = (dataset.tables.frames, dataset.tables.clips, dataset.tables.words)
    if dataset.auxiliary is not None:
        tables = (*tables, dataset.auxiliary.words)
    size = sum(table.numel() * table.element_size() for table in tables)
    return dataset.to(device) if size < share * free else dataset
