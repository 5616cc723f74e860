"""Video files and an encoder to the feature files that training and evaluation read.

    encoder = open_encoder("plain")
    write_dataset("data", "mine", {"a": Path("a.mp4")}, {"train": annotations}, encoder)      # data/mine/TextData, …

Each film becomes one (frames, width) dataset in ``FeatureData/ENCODER/feature.hdf5``, each sentence one (words, width)
dataset in ``TextData/ENCODER_COLLECTION_query_feat.hdf5``; ``recipe.json`` beside each says how they were made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import h5py

from prvr.data.annotations import Annotation, write_annotations
from prvr.data.errors import DataError
from prvr.data.layout import RECIPE_FILE
from prvr.data.progress import track
from prvr.files import whole_folder, write_whole
from prvr.media.encoders import Encoder
from prvr.media.errors import MediaError
from prvr.media.features import VideoFeatures, video_features
from prvr.media.reader import Backend
from prvr.media.recipe import Recipe
from prvr.processes import map_in_processes

Text = Literal["words", "vectors"]


@dataclass(frozen=True)
class Extracted:
    """What became of a set of videos."""

    folder: Path
    frames: dict[str, int]  # video id -> rows written
    failed: dict[str, str]  # video id -> why nothing was
    damaged: dict[str, str]  # video id -> what is missing of it
    recipe: Recipe | None  # None where every file failed


def extract_features(
    videos: Mapping[str, Path],
    encoder: Encoder,
    folder: Path,
    *,
    rate: float = 1.0,
    backend: Backend = "auto",
    workers: int = 1,
    progress: bool = True,
) -> Extracted:
    """Write ``feature.hdf5`` and ``recipe.json`` into a folder. What cannot be read is reported, others go on.

    ``workers``: processes that decode and encode, for encoders without weights.
    """
    frames: dict[str, int] = {}
    failed: dict[str, str] = {}
    damaged: dict[str, str] = {}
    recipe: Recipe | None = None
    with whole_folder(folder) as beside:
        with h5py.File(beside / "feature.hdf5", "w", libver=("v110", "v110")) as store:
            read = map_in_processes(partial(_features, encoder, rate, backend), videos.values(), workers)
            shown = track(read, total=len(videos), label="extracting features", show=progress)
            for video, found in zip(videos, shown, strict=True):
                if isinstance(found, MediaError):
                    failed[video] = found.reason
                    continue
                store.create_dataset(video, data=found.vectors)
                frames[video], recipe = len(found), found.recipe
                if found.problem is not None:
                    damaged[video] = found.problem
        if recipe is not None:
            write_whole(beside / RECIPE_FILE, recipe.to_json())
    return Extracted(folder, frames, failed, damaged, recipe)


def _features(encoder: Encoder, rate: float, backend: Backend, path: Path) -> VideoFeatures | MediaError:
    try:
        return video_features(path, encoder, rate, backend)
    except MediaError as problem:
        return problem


def read_recipe(folder: Path) -> Recipe | None:
    """The recipe of a folder of features; None where nobody wrote one down."""
    path = folder / RECIPE_FILE
    return Recipe.from_json(path.read_text("utf-8")) if path.is_file() else None


def write_query_features(path: Path, annotations: Sequence[Annotation], encoder: Encoder, text: Text = "words") -> None:
    """One dataset per sentence: its words' features (L, Dq), or its one vector (1, D)."""
    with h5py.File(path, "w", libver=("v110", "v110")) as store:
        for each in annotations:
            if text == "words":
                store.create_dataset(each.id, data=encoder.encode_words(each.sentence))
            else:
                store.create_dataset(each.id, data=encoder.encode_texts([each.sentence]))


def write_dataset(
    root: str | Path,
    collection: str,
    videos: Mapping[str, Path],
    annotations: Mapping[str, Sequence[Annotation]],
    encoder: Encoder,
    *,
    rate: float = 1.0,
    text: Text = "words",
    backend: Backend = "auto",
    workers: int = 1,
    progress: bool = True,
) -> Extracted:
    """A whole collection, ``root/collection``: features of videos and sentences, captions by split.

    ``text="vectors"`` suits the ``frozen`` backbone, for which frames and sentences must lie in one space. Sentences of
    videos that could not be read are left out.
    """
    folder, name = Path(root) / collection, slug(encoder.name)
    if (folder / "TextData").exists():
        raise DataError(f"{folder} is there already; delete it, or choose another folder or collection name.")
    features = folder / "FeatureData" / name
    found = extract_features(videos, encoder, features, rate=rate, backend=backend, workers=workers, progress=progress)
    if not found.frames:
        why = "; ".join(sorted(set(found.failed.values()))[:3]) or "none were given"
        raise DataError(f"no video could be read, so there is no dataset to write: {why}.")
    with whole_folder(folder / "TextData") as texts:
        kept = {split: [a for a in told if a.moment.video in found.frames] for split, told in annotations.items()}
        for split, told in kept.items():
            write_annotations(texts, collection, split, told)
        sentences = [annotation for told in kept.values() for annotation in told]
        write_query_features(texts / f"{name}_{collection}_query_feat.hdf5", sentences, encoder, text)
        write_whole(texts / RECIPE_FILE, encoder.text_recipe(words=text == "words").to_json())
    return found


def slug(name: str) -> str:
    """An encoder's name as part of a file name.

    >>> slug("google/siglip2-base-patch16-224")
    'google-siglip2-base-patch16-224'
    """
    return re.sub(r"[^\w.-]+", "-", Path(name).name if Path(name).is_absolute() else name).strip("-.") or "encoder"
