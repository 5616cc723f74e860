"""Where the files of a collection are.

    ROOT/charades/TextData/charadestrain.caption.txt         captions of a split (also val, test)
    ROOT/charades/TextData/roberta_charades_query_feat.hdf5  word features of all splits
    ROOT/charades/TextData/roberta_charades_caption_feat.hdf5  auxiliary captions (see ``prvr.data.auxiliary``)
    ROOT/charades/TextData/charadestest.gt.jsonl             all correct videos of a query
    ROOT/charades/TextData/charadestest.moments.jsonl        where in the video a query happens
    ROOT/charades/FeatureData/i3d_rgb_lgi/                   frame features: feature.hdf5, or feature.bin and its lists
    ROOT/charades/FeatureData/charades_clip_L14.h5           or one file, with its word features under the same name
    ROOT/charades/TextData/charades_clip_L14.h5

Auxiliary captions and the two .jsonl files are optional. Features made by ``prvr`` have a ``recipe.json`` beside them,
which says how they were made. Your own collection works in the same way, under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prvr.data.errors import DataError
from prvr.files import NotAnObject, read_json_object

RECIPE_FILE = "recipe.json"  # next to the features: how they were made
_HDF5 = (".h5", ".hdf5")
_UEM_FRAMES = "new_clip_vit_32_{}_vid_features"  # its authors' names
_UEM_WORDS = "clip_ViT_B_32_{}_query_feat_ours_word"


@dataclass(frozen=True)
class DatasetSpec:
    """What is published about a dataset's standard features."""

    name: str
    visual_feature: str  # folder under FeatureData
    visual_width: int
    query_width: int
    videos: Mapping[str, int] = field(default_factory=dict)  # split -> published count
    sentences: Mapping[str, int] = field(default_factory=dict)


# Counts: the dataset note that came with the features; Charades' 5,538 there is a slip for the 5,338 annotated videos.
# Nothing is published about `val`.
DATASETS: dict[str, DatasetSpec] = {
    spec.name: spec
    for spec in (
        DatasetSpec(
            name="activitynet",
            visual_feature="i3d",
            visual_width=1024,
            query_width=1024,
            videos={"train": 9043, "test": 4430},
            sentences={"train": 33721, "test": 15753},
        ),
        DatasetSpec(
            name="charades",
            visual_feature="i3d_rgb_lgi",
            visual_width=1024,
            query_width=1024,
            videos={"train": 5338, "test": 1334},
            sentences={"train": 12408, "test": 3720},
        ),
        DatasetSpec(
            name="tvr",
            visual_feature="i3d_resnet",
            visual_width=3072,
            query_width=768,
            videos={"train": 17435, "test": 2179},
            sentences={"train": 87175, "test": 10895},
        ),
    )
}


_ONE_FILE_WIDTHS = {  # features published as one file: width of frames, of words
    "{}_clip_L14": (768, 768),  # CLIP ViT-L/14, by MSC-PRVR's authors
    "{}_slowfast_clip": (2816, 512),  # SlowFast and CLIP ViT-B/32 side by side, for QVHighlights
    _UEM_FRAMES: (512, 512),  # CLIP ViT-B/32
}


@dataclass(frozen=True)
class Collection:
    """One collection's folder and the paths inside it; nothing is opened here."""

    name: str
    folder: Path
    visual_feature: str

    @staticmethod
    def find(root: str | Path, collection: str, visual_feature: str | None = None) -> Collection:
        """Locate a collection under ``root``, or at ``root`` itself."""
        folder = collection_folder(Path(root), collection)
        return Collection(collection, folder, visual_feature or _only_feature(folder, collection))

    @property
    def text(self) -> Path:
        return self.folder / "TextData"

    @property
    def features(self) -> Path:
        return self.folder / "FeatureData" / self.visual_feature

    @property
    def published_widths(self) -> tuple[int | None, int | None]:
        """How wide frames and words of this feature are published; None where nothing is known about it."""
        spec = DATASETS.get(self.name)
        if spec is not None and (self.features.is_dir() or not self.visual_feature):
            return spec.visual_width, spec.query_width
        known = {name.format(self.name): widths for name, widths in _ONE_FILE_WIDTHS.items()}
        return known.get(self.visual_feature, (None, None))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have a caption file, in the usual order."""
        ending = ".caption.txt"
        splits = {path.name[len(self.name) : -len(ending)] for path in self.text.glob(f"{self.name}*{ending}")}
        usual = [split for split in ("train", "val", "test") if split in splits]
        return (*usual, *sorted(splits - set(usual)))

    def captions(self, split: str) -> Path:
        """The caption file of a split."""
        path = self._split_file(split, "caption.txt")
        if not path.is_file():
            has = f"it has captions for: {', '.join(self.splits)}" if self.splits else "it has no caption file at all"
            raise DataError(f"{path} is missing ({has}); put the caption file of '{split}' there.")
        return path

    @property
    def query_features(self) -> Path:
        """The HDF5 file of word features, one dataset per caption id."""
        if not self.features.is_dir():  # one file, whose words are published beside it
            names = [self.visual_feature, f"{self.visual_feature}_text", _UEM_WORDS.format(self.name)]
            names = names if self.visual_feature == _UEM_FRAMES.format(self.name) else names[:2]
            paired = next((path for name in names if (path := _hdf5(self.text, name)) is not None), None)
            if paired is not None:
                return paired
        usual = self._word_features("query")
        path = _usual_or_only(usual, "*query_feat*.hdf5")
        if path is None:
            raise DataError(f"{usual} is missing; put the word features (one dataset per caption id) there.")
        return path

    @property
    def usual_caption_features(self) -> Path:
        """The path where auxiliary captions are searched first."""
        return self._word_features("caption")

    @property
    def caption_features(self) -> Path | None:
        """The HDF5 file of auxiliary captions, or None."""
        return _usual_or_only(self.usual_caption_features, "*caption_feat*.hdf5")

    @property
    def video_features(self) -> Path:
        """An HDF5 file, or the folder of a BigFile (``feature.bin`` and its lists). HDF5 is preferred."""
        folder = self.features
        if not folder.is_dir():
            file = _hdf5(folder.parent, self.visual_feature)
            if file is not None:
                return file
            raise DataError(f"{folder} is missing; found under FeatureData: {_named(_children(folder.parent))}.")
        if (folder / "feature.hdf5").is_file():
            return folder / "feature.hdf5"
        others = sorted(folder.glob("*.hdf5"))
        if len(others) > 1:
            raise DataError(f"{folder} holds several HDF5 files ({_named(others)}); name the right one feature.hdf5.")
        if others:
            return others[0]
        if (folder / "feature.bin").is_file():
            return folder
        raise DataError(f"{folder} holds neither feature.hdf5 nor feature.bin; put the frame features there.")

    @property
    def recipes(self) -> dict[str, dict[str, Any]]:
        """How the features of frames and of queries were made, where a ``recipe.json`` says it."""
        places = {"frames": self.features / RECIPE_FILE, "queries": self.text / RECIPE_FILE}
        try:
            return {what: read_json_object(path) for what, path in places.items() if path.is_file()}
        except NotAnObject as problem:
            raise DataError(f"{problem}; extract the features again.") from None

    def positives(self, split: str) -> Path | None:
        """The file of all correct videos per query, or None."""
        return _if_file(self._split_file(split, "gt.jsonl"))

    def moments(self, split: str) -> Path | None:
        """The file of the queries' moments, or None."""
        return _if_file(self._split_file(split, "moments.jsonl"))

    def _word_features(self, of: str) -> Path:
        return self.text / f"roberta_{self.name}_{of}_feat.hdf5"

    def _split_file(self, split: str, ending: str) -> Path:
        return self.text / f"{self.name}{split}.{ending}"


def has_collection(root: str | Path, collection: str) -> bool:
    """Whether ``root`` holds a collection's folder, or is one."""
    return any((place / "TextData").is_dir() for place in (Path(root) / collection, Path(root)))


def collection_folder(root: Path, collection: str) -> Path:
    """``root/collection``, or ``root`` where that is the collection's own folder."""
    if (root / collection / "TextData").is_dir():
        return root / collection
    if (root / "TextData").is_dir():
        holds_it = any((root / "TextData").glob(f"{collection}*.caption.txt"))
        if holds_it or root.resolve().name == collection:
            return root
        raise DataError(
            f"{root / 'TextData'} holds no {collection}*.caption.txt; it may be another collection's folder."
        )
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give the folder that holds {collection}/TextData.")
    raise DataError(f"{root / collection / 'TextData'} is missing; found in {root}: {_named(_children(root))}.")


def _only_feature(folder: Path, collection: str) -> str:
    """The standard feature of a known dataset, otherwise the only one in the folder."""
    found = _children(folder / "FeatureData")
    candidates = [path for path in found if path.is_dir()] or [path for path in found if path.suffix in _HDF5]
    spec = DATASETS.get(collection)
    if spec is not None and any(path.name == spec.visual_feature for path in candidates):
        return spec.visual_feature
    if len(candidates) == 1:
        return candidates[0].name.removesuffix(candidates[0].suffix if candidates[0].is_file() else "")
    if not candidates:
        raise DataError(f"{folder / 'FeatureData'} is missing or empty; put the frame features in a folder there.")
    raise DataError(f"{folder / 'FeatureData'} holds several features ({_named(candidates)}); choose a visual feature.")


def _usual_or_only(usual: Path, pattern: str) -> Path | None:
    """A file under its usual name, or the only matching one in the same folder."""
    if usual.is_file():
        return usual
    others = list(usual.parent.glob(pattern))
    return others[0] if len(others) == 1 else None


def _hdf5(folder: Path, name: str) -> Path | None:
    """An HDF5 file under either ending."""
    return next((path for ending in _HDF5 if (path := folder / f"{name}{ending}").is_file()), None)


def _children(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def _named(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths) or "nothing"


def _if_file(path: Path) -> Path | None:
    return path if path.is_file() else None
