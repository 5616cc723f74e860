"""Video files and their captions to a dataset: the feature files that training and evaluation read.

    videos = {"holiday": Path("holiday.mp4"), "garden": Path("garden.mp4")}
    moment = Moment("holiday", 3.0, 8.5, 60.0)                      # video, start, end and length in seconds
    captions = {"train": [Annotation("holiday#enc#0", "a dog jumps into the lake", moment, ("holiday",))]}
    result = write_dataset("data", "mine", videos, captions, open_encoder("siglip2"))
    print(result.failed)                                            # files that could not be read, with the reason

Each video becomes one (frames, width) dataset in ``FeatureData/ENCODER/feature.hdf5``. Each sentence becomes one
(words, width) dataset in ``TextData/ENCODER_COLLECTION_query_feat.hdf5``. ``recipe.json`` beside each states how the
features were made.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prvr.files import exclusive_lock, recover_folders, whole_folder, write_whole
from prvr.media.encoders.base import Encoder, TextEncoder, WindowEncoder
from prvr.media.errors import EncoderError, MediaError
from prvr.media.kept_features import ExtractedVideo, Extraction
from prvr.media.reader import Backend
from prvr.media.recipe import Recipe
from prvr.processes import map_in_processes

if TYPE_CHECKING:  # importing prvr.data loads torch, which reading a video does not need
    from prvr.data import Annotation

TextFeatures = Literal["words", "projected", "vectors"]


@dataclass(frozen=True)
class ExtractionResult:
    """Which videos were read, which were not, and why."""

    folder: Path
    frames: dict[str, int]  # video id -> rows written
    failed: dict[str, str]  # video id -> why it has none
    damaged: dict[str, str]  # video id -> what is missing of it
    recipe: Recipe | None  # None where every file failed


def write_dataset(
    root: str | Path,
    collection: str,
    videos: Mapping[str, Path],
    annotations: Mapping[str, Sequence[Annotation]],
    encoder: Encoder,
    *,
    rate: float = 1.0,
    repeats: float = 0.0,
    pool: int = 1,
    text: TextFeatures = "words",
    name: str | None = None,
    backend: Backend = "pyav",
    workers: int = 1,
    progress: bool = True,
) -> ExtractionResult:
    """Write the collection ``root/collection``: features of videos and sentences, and the captions of each split.

    Sentences of videos that could not be read are left out. If it is interrupted, the same call continues: the
    features of finished videos are kept in a hidden folder until everything is written.

    Args:
        root: the folder of collections.
        collection: the name of the dataset.
        videos: a file for each video id.
        annotations: the sentences of each split (``train``, ``val``, ``test``), with the videos that they describe.
        encoder: turns frames and sentences into features.
        rate: frames per second to read.
        repeats: a frame that differs less from the last encoded one gets its vector; 0: every frame is encoded.
        pool: samples whose mean is one row.
        text: keep sentences word by word, or as one vector each. The ``frozen`` backbone needs vectors, because it
            compares sentences with frames in the encoder's own space. Projected words lie in that space too, and the
            last of them is the sentence's vector.
        name: of the feature's folder; the encoder's by default.
        backend: what decodes the videos.
        workers: processes that decode and encode, for encoders without weights.
        progress: whether to show a progress bar.

    Raises:
        DataError: the collection exists already, or no video could be read.
    """
    from prvr.data import RECIPE_FILE, DataError, write_annotations

    folder, name = Path(root) / collection, name or _file_name(encoder.name)
    if (folder / "TextData").exists():
        raise DataError(f"{folder} exists already. Delete it, or choose another folder or collection name.")
    finished = _finished(folder, name)
    made_by = Extraction(encoder, rate, backend, keep=finished, repeats=repeats, pool=pool)
    result = _extract(folder, name, videos, made_by, workers, progress)
    with whole_folder(folder / "TextData") as texts:
        kept = {split: [a for a in part if a.moment.video in result.frames] for split, part in annotations.items()}
        for split, part in kept.items():
            if part:
                write_annotations(texts, collection, split, part)
        sentences = {annotation.id: annotation.sentence for part in kept.values() for annotation in part}
        _write_query_features(texts / f"{name}_{collection}_query_feat.hdf5", sentences, encoder, text, progress)
        write_whole(texts / RECIPE_FILE, _text_recipe(encoder, text).to_json())
    shutil.rmtree(finished, ignore_errors=True)
    return result


def add_features(
    folder: str | Path,
    name: str,
    videos: Mapping[str, Path],
    sentences: Mapping[str, str],
    made_by: Extraction,
    *,
    text: TextFeatures = "words",
    text_encoder: TextEncoder | None = None,
    workers: int = 1,
    progress: bool = True,
) -> ExtractionResult:
    """Add a feature to a collection that has captions: ``FeatureData/NAME`` and ``TextData/NAME``.

    If it is interrupted, the same call continues. Each folder appears when it is complete.

    Args:
        folder: the collection's folder.
        name: the feature's name.
        videos: a file for each video id.
        sentences: the sentence of each caption id; none, and only frames are written.
        made_by: encoder, rate and pooling.
        text: how sentences are kept, as ``write_dataset`` takes it.
        text_encoder: encodes the sentences; by default the encoder of the frames.
        workers: processes that decode and encode, for encoders without weights.
        progress: whether to show a progress bar.

    Raises:
        DataError: the collection has this feature already, or no video could be read.
    """
    from prvr.data import RECIPE_FILE

    folder = Path(folder)
    finished, words = _finished(folder, name), folder / "TextData" / name
    require_new_features(folder, name, words=bool(sentences))
    writer = _sentence_encoder(made_by, text_encoder) if sentences else None
    if writer is not None:
        _text_recipe(writer, text)  # refuses before hours of work what the encoder cannot do
    result = _extract(folder, name, videos, replace(made_by, keep=finished), workers, progress)
    if isinstance(made_by.encoder, WindowEncoder):
        made_by.encoder.release()  # a GPU may not hold both models
    if writer is not None:
        with whole_folder(words) as texts:
            _write_query_features(texts / "feature.hdf5", sentences, writer, text, progress)
            write_whole(texts / RECIPE_FILE, _text_recipe(writer, text).to_json())
    shutil.rmtree(finished, ignore_errors=True)
    return result


def require_new_features(folder: Path, name: str, *, words: bool) -> None:
    """Refuse a feature that a collection has already, with words or without.

    Raises:
        DataError: it has; frames that were interrupted do not count, they continue.
    """
    from prvr.data import DataError

    places = {folder / "TextData" / name: words, folder / "FeatureData" / name: not _finished(folder, name).exists()}
    for place, counts in places.items():
        if counts and place.exists():
            raise DataError(f"{place} exists already. Delete it, or choose another name.")


def _sentence_encoder(made_by: Extraction, given: TextEncoder | None) -> TextEncoder:
    encoder = given or made_by.encoder
    if isinstance(encoder, WindowEncoder):
        raise EncoderError(f"{encoder.name} encodes no sentences; name a text encoder as well.")
    return encoder


def _finished(folder: Path, name: str) -> Path:
    """Where the features of finished videos are kept until all are written."""
    return folder / "FeatureData" / f".{name}.finished-videos"


def _extract(
    folder: Path, name: str, videos: Mapping[str, Path], made_by: Extraction, workers: int, progress: bool
) -> ExtractionResult:
    from prvr.data import DataError

    features = folder / "FeatureData" / name
    features.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(features.with_name(".lock")):
        recover_folders(features.parent)
        result = extract_features(videos, made_by, features, workers=workers, progress=progress)
    if not result.frames:
        shutil.rmtree(features, ignore_errors=True)
        why = "; ".join(f"{videos[name]} {what}" for name, what in [*result.failed.items()][:3]) or "none were given"
        raise DataError(f"No video could be read, so there is no dataset to write: {why}.")
    return result


def extract_features(
    videos: Mapping[str, Path], made_by: Extraction, folder: Path, *, workers: int = 1, progress: bool = True
) -> ExtractionResult:
    """Write ``feature.hdf5`` and ``recipe.json`` into a folder. Files that cannot be read are reported and skipped.

    ``workers`` is the number of processes that decode and encode, for encoders without weights.
    """
    import h5py

    from prvr.data import RECIPE_FILE, show_progress

    frames: dict[str, int] = {}
    failed: dict[str, str] = {}
    damaged: dict[str, str] = {}
    recipe: Recipe | None = None
    with whole_folder(folder) as unfinished:
        with h5py.File(unfinished / "feature.hdf5", "w", libver=("v110", "v110")) as store:
            results = map_in_processes(partial(_features, made_by), videos.values(), workers)
            shown = show_progress(results, total=len(videos), label="extracting features", show=progress)
            for video, features in zip(videos, shown, strict=True):
                if isinstance(features, MediaError):
                    failed[video] = features.reason
                    continue
                store.create_dataset(video, data=features.vectors)
                frames[video], recipe = len(features.vectors), features.recipe
                if features.problem is not None:
                    damaged[video] = features.problem
        if recipe is not None:
            write_whole(unfinished / RECIPE_FILE, recipe.to_json())
    return ExtractionResult(folder, frames, failed, damaged, recipe)


def _features(made_by: Extraction, path: Path) -> ExtractedVideo | MediaError:
    try:
        return made_by.features(path)
    except MediaError as problem:
        return problem


def _write_query_features(
    path: Path, sentences: Mapping[str, str], encoder: TextEncoder, text: TextFeatures, progress: bool
) -> None:
    """One dataset per sentence: the features of its words (L, Dq), or its one vector (1, D)."""
    import h5py

    from prvr.data import show_progress

    names = show_progress(sentences, total=len(sentences), label="encoding sentences", show=progress)
    with h5py.File(path, "w", libver=("v110", "v110")) as store:
        for name in names:
            if text == "vectors":
                store.create_dataset(name, data=encoder.encode_texts([sentences[name]]))
            else:
                words = encoder.encode_words(sentences[name])
                store.create_dataset(name, data=encoder.project_words(words) if text == "projected" else words)


def _text_recipe(encoder: TextEncoder, text: TextFeatures) -> Recipe:
    if text == "projected":
        encoder.project_words(encoder.encode_words("a"))  # raises where it cannot
    return encoder.text_recipe(words=text == "words", projected=text == "projected")


def _file_name(encoder: str) -> str:
    """An encoder's name as part of a file name.

    >>> _file_name("google/siglip2-base-patch16-224")
    'google-siglip2-base-patch16-224'
    """
    name = Path(encoder).name if Path(encoder).is_absolute() else encoder
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "encoder"
