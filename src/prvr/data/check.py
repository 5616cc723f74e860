"""Checks which files of a collection exist, whether they fit together, and whether they match what was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from prvr.data.captions import Caption, read_captions, read_moments, read_positives
from prvr.data.check_features import OpenedFeature, check_auxiliary, check_features
from prvr.data.check_rows import CheckRow, CheckState
from prvr.data.datasets import DATASETS
from prvr.data.errors import DataError, summarise_names
from prvr.data.layout import Collection, collection_folder
from prvr.data.store_base import FeatureStore
from prvr.data.stores import stored_name


@dataclass(frozen=True)
class CheckReport:
    """Everything that was checked, in reading order."""

    root: Path
    rows: tuple[CheckRow, ...]

    @property
    def ok(self) -> bool:
        """Whether training and evaluation would run. Warnings do not prevent it."""
        return not any(row.state == "error" for row in self.rows)


def check_collections(root: str | Path, collection: str | None = None, *, every: bool = False) -> CheckReport:
    """Check one collection, or every collection under ``root``.

    Args:
        root: the folder that holds the collections, or one collection's own folder.
        collection: check this one only.
        every: read every feature instead of a sample.
    """
    root = Path(root)
    names = [collection] if collection else find_collections(root)
    if not names:
        raise DataError(f"{root} holds no dataset. {_expected(root)}")
    return CheckReport(root, tuple(row for name in names for row in _check_collection(root, name, every)))


def find_collections(root: Path) -> list[str]:
    """The names of the collections at or under ``root``."""
    if (root / "TextData").is_dir():
        stems = [path.name.removesuffix(".caption.txt") for path in sorted((root / "TextData").glob("*.caption.txt"))]
        usual = [
            stem.removesuffix(split) for stem in stems for split in ("train", "val", "test") if stem.endswith(split)
        ]
        return usual[:1] or [root.resolve().name]
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give the folder that holds the collections.")
    return sorted(path.parent.name for path in root.glob("*/TextData"))


def only_collection(root: Path, chosen: str | None = None) -> str:
    """The name of the collection at or under ``root``: the chosen one, or the only one.

    Raises:
        DataError: there is none, or there are several.
    """
    names = [chosen] if chosen else find_collections(root)
    if not names:
        raise DataError(f"{root} holds no dataset. {_expected(root)}")
    if len(names) > 1:
        raise DataError(f"{root} holds {len(names)} collections ({', '.join(names)}); choose a --collection.")
    return names[0]


def _expected(root: Path) -> str:
    place = root / "charades" / "TextData" / "charadestrain.caption.txt"
    return (
        f"Expected captions such as {place}: put the published files there, or make a dataset of your own videos "
        "with `prvr data make`, or of annotations with `prvr data convert`."
    )


def _check_collection(root: Path, name: str, every: bool) -> Iterator[CheckRow]:
    files = Collection(name, collection_folder(root, name), "")
    with ExitStack() as stack:
        features = check_features(root, files, every, stack)
        yield from features.rows
        yield from check_auxiliary(files, features.opened[0].words if features.opened else None)
        if not files.splits:
            yield CheckRow(name, "captions", "error", f"no {name}*.caption.txt in {files.text}")
        texts: dict[str, list[Caption]] = {}
        for split in ("train", "val", "test"):
            if files.splits and split not in files.splits:
                state: CheckState = "error" if split == "train" else "warning"
                file = f"{name}{split}.caption.txt"
                yield CheckRow(name, f"{split} captions", state, f"missing: no {file} in {files.text}", file)
        for split in files.splits:
            yield from _check_split(files, split, features.opened, texts)
        if "val" in texts and texts["val"] == texts.get("test"):
            found = "the captions are identical: an epoch chosen on val is chosen on test"
            yield CheckRow(name, "val and test", "warning", found)


def _check_split(
    files: Collection, split: str, features: Sequence[OpenedFeature], texts: dict[str, list[Caption]]
) -> Iterator[CheckRow]:
    try:
        captions = texts[split] = read_captions(files.captions(split))
    except DataError as problem:
        yield CheckRow(files.name, f"{split} captions", "error", str(problem))
        return
    video_ids = list(dict.fromkeys(caption.video for caption in captions))
    counts, spec = f"{len(video_ids):,} videos, {len(captions):,} sentences", DATASETS.get(files.name)
    published = ""
    if spec and split in spec.videos:
        published = f"{spec.videos[split]:,} videos, {spec.sentences[split]:,} sentences"
    state: CheckState = "ok" if published in ("", counts) else "warning"
    yield CheckRow(files.name, f"{split} captions", state, counts, published)
    for feature in features:
        item = f"{feature.label}{split} videos without features"
        yield from _check_cover(files, item, video_ids, feature.videos, feature.wrong)
        item = f"{feature.label}{split} captions without features"
        yield from _check_cover(files, item, [caption.id for caption in captions], feature.words, feature.wrong)
    yield from _check_extras(files, split, {caption.id for caption in captions})


def _check_cover(
    files: Collection, item: str, names: Sequence[str], store: FeatureStore | None, wrong: CheckState
) -> Iterator[CheckRow]:
    if store is not None:
        absent = [name for name in names if stored_name(store, name) is None]
        found = f"{len(absent):,} ({summarise_names(absent)})" if absent else "0"
        yield CheckRow(files.name, item, wrong if absent else "ok", found, "0")


def _check_extras(files: Collection, split: str, query_ids: set[str]) -> Iterator[CheckRow]:
    """Check the two optional files, and whether they cover these captions."""
    for item, path, read in (
        (f"{split} several positives", files.positives(split), read_positives),
        (f"{split} moments", files.moments(split), read_moments),
    ):
        if path is None:
            yield CheckRow(files.name, item, "ok", "none (optional)")
            continue
        try:
            known = sum(name in query_ids for name in read(path))
        except DataError as problem:
            yield CheckRow(files.name, item, "error", str(problem))
        else:
            found = f"{path.name}: {known:,} of {len(query_ids):,} captions"
            yield CheckRow(files.name, item, "ok" if known == len(query_ids) else "warning", found)
