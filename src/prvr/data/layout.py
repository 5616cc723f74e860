"""Where the files of a collection are.

    ROOT/charades/TextData/charadestrain.caption.txt         captions of a split (also val, test)
    ROOT/charades/TextData/roberta_charades_query_feat.hdf5  word features of all splits
    ROOT/charades/TextData/roberta_charades_caption_feat.hdf5  auxiliary captions (see ``prvr.data.auxiliary``)
    ROOT/charades/TextData/charadestest.gt.jsonl             all correct videos of a query
    ROOT/charades/TextData/charadestest.moments.jsonl        where in the video a query happens
    ROOT/charades/FeatureData/i3d_rgb_lgi/                   frame features: feature.hdf5, or feature.bin and its lists
    ROOT/charades/FeatureData/charades_clip_L14.h5           or one file, with its word features under the same name
    ROOT/charades/TextData/charades_clip_L14.h5
    ROOT/charades/FeatureData/clip_features/VIDEO.npz        or one array file per video (.npy, .npz, .pt)
    ROOT/charades/TextData/clip_text_features/qid12.npz      and per query

``known_features`` knows names of published features. ``A+B`` as a feature's name is two of them side by side.
Auxiliary captions and the two .jsonl files are optional. Features made by ``prvr`` have a ``recipe.json`` beside them,
which says how they were made. Your own collection works in the same way, under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from prvr.data.datasets import DATASETS
from prvr.data.errors import DataError
from prvr.data.folder_store import has_array_files
from prvr.data.known_features import KNOWN_FEATURES, KnownFeature, recognise
from prvr.files import NotAnObject, read_json_object

RECIPE_FILE = "recipe.json"  # next to the features: how they were made
_HDF5 = (".h5", ".hdf5")


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
        return Collection(collection, folder, _feature_name(visual_feature) or _only_feature(folder, collection))

    @property
    def text(self) -> Path:
        return self.folder / "TextData"

    @property
    def features(self) -> Path:
        return self.folder / "FeatureData" / self.visual_feature

    @property
    def published_widths(self) -> tuple[int | None, int | None]:
        """How wide frames and words of this feature are published; None where nothing is known about it."""
        known, spec = recognise(self.name, self.visual_feature), DATASETS.get(self.name)
        if known is not None:
            return known[0].visual_width, known[0].query_width
        standard = spec is not None and self.visual_feature in ("", spec.visual_feature)
        return (spec.visual_width, spec.query_width) if spec is not None and standard else (None, None)

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
        """Word features, one array per caption id: an HDF5 file, or a folder that ``open_feature_store`` reads.

        They are those that are published with the frames, or in a folder or file of the same name, or the usual ones.
        """
        known = recognise(self.name, self.visual_feature)
        names = known[1].words_of(self.name) if known else []
        names += [self.visual_feature, f"{self.visual_feature}_text"] if self.visual_feature else []
        paired = next((path for name in names if (path := _place(self.text, name)) is not None), None)
        if paired is not None:
            return paired
        usual = self._word_features("query")
        path = _usual_or_only(usual, "*query_feat*.hdf5")
        if path is None:
            known_names = f" (or {names[0]}, in TextData as well)" if known else ""
            raise DataError(
                f"{usual} is missing; put the word features (one dataset per caption id) there{known_names}."
            )
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
        """Frame features: an HDF5 file, or a folder that ``open_feature_store`` reads. HDF5 is preferred."""
        if "+" in self.visual_feature:
            parts = [replace(self, visual_feature=part).video_features for part in self.visual_feature.split("+")]
            return self.features.with_name("+".join(path.relative_to(self.features.parent).parts[0] for path in parts))
        folder = self.features
        if not folder.is_dir():
            file = _hdf5(folder.parent, self.visual_feature)
            if file is not None:
                return file
            found = _children(folder.parent)
            hint = "".join(f" --data.features {name} reads what is there." for name in self.known[:1])
            raise DataError(f"{folder} is missing; found under FeatureData: {_named(found)}.{hint}")
        if (folder / "feature.hdf5").is_file():
            return folder / "feature.hdf5"
        others = sorted(folder.glob("*.hdf5"))
        if len(others) > 1:
            raise DataError(f"{folder} holds several HDF5 files ({_named(others)}); name the right one feature.hdf5.")
        if others:
            return others[0]
        if (folder / "feature.bin").is_file() or has_array_files(folder):
            return folder
        raise DataError(
            f"{folder} holds neither feature.hdf5 nor feature.bin nor one array file per video; put the frame features "
            "there."
        )

    @property
    def found_features(self) -> list[str]:
        """Names of all features under FeatureData."""
        found = _children(self.folder / "FeatureData")
        return [_stem(path) for path in found if path.is_dir() or path.suffix in _HDF5]

    @property
    def known(self) -> list[str]:
        """Short names of the known features whose frames are all there."""
        return [feature.name for feature in KNOWN_FEATURES.values() if self.files_of(feature) is not None]

    def files_of(self, feature: KnownFeature) -> str | None:
        """The name under which a known feature's frames are here; None where they are not."""
        here = {*self.found_features}
        names = (files.frames.format(self.name) for files in feature.files)
        return next((name for name in names if {*name.split("+")} <= here), None)

    @property
    def recipes(self) -> dict[str, dict[str, Any]]:
        """How the features of frames and of queries were made, where a ``recipe.json`` says it."""
        try:
            words = self.query_features
        except DataError:  # there are none yet
            words = self.text
        queries = words if words.is_dir() else self.text
        places = {"frames": self.features / RECIPE_FILE, "queries": queries / RECIPE_FILE}
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


def _feature_name(given: str | None) -> str:
    """The name of a feature without the slash that a shell adds to a folder's name; a path is refused."""
    names = [part.rstrip("/") for part in (given or "").split("+")]
    if any("/" in name for name in names):
        last = "+".join(PurePath(name).name for name in names)
        raise DataError(f"the feature {given!r} is a path; give its name alone, as FeatureData shows it: {last}.")
    return "+".join(names)


def _only_feature(folder: Path, collection: str) -> str:
    """The standard feature of a known dataset, otherwise the only one in the folder."""
    found = _children(folder / "FeatureData")
    candidates = [path for path in found if path.is_dir()] or [path for path in found if path.suffix in _HDF5]
    names, spec = [_stem(path) for path in candidates], DATASETS.get(collection)
    if spec is not None and {*spec.visual_feature.split("+")} <= {*names}:
        return spec.visual_feature
    if len(candidates) == 1:
        return names[0]
    if not candidates:
        raise DataError(f"{folder / 'FeatureData'} is missing or empty; put the frame features in a folder there.")
    raise DataError(
        f"{folder / 'FeatureData'} holds several features ({_named(candidates)}); "
        "choose one: --data.visual-feature NAME for `prvr train`, --features NAME for `prvr data`, or "
        "data.visual_feature among the settings of a sweep."
    )


def _stem(path: Path) -> str:
    return path.name.removesuffix(path.suffix) if path.is_file() else path.name


def _place(folder: Path, name: str) -> Path | None:
    """A folder of features, or an HDF5 file under either ending."""
    return folder / name if (folder / name).is_dir() else _hdf5(folder, name)


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
