"""Checks which files of a collection exist, whether they fit together, and whether they match what was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prvr.data.auxiliary import captions_by_video
from prvr.data.captions import Caption, read_captions, read_moments, read_positives
from prvr.data.errors import DataError, summarise_names
from prvr.data.layout import DATASETS, Collection, DatasetSpec, collection_folder
from prvr.data.stores import FeatureStore, open_feature_store, stored_name

CheckState = Literal["ok", "warning", "error"]

SAMPLE = 24  # ids whose numbers are read, spread over the store


@dataclass(frozen=True)
class CheckRow:
    """One item that was checked."""

    collection: str
    item: str
    state: CheckState
    found: str
    expected: str = ""


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
        raise DataError(
            f"{root} holds no collection; expected a folder with TextData and FeatureData inside, "
            f"such as {root / 'charades' / 'TextData'}."
        )
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


def _check_collection(root: Path, name: str, every: bool) -> Iterator[CheckRow]:
    spec = DATASETS.get(name)
    files = Collection(name, collection_folder(root, name), "")
    videos, words = _Opened(), _Opened()
    try:
        try:
            files = Collection.find(root, name)
        except DataError as problem:
            yield CheckRow(name, "frame features", "error", str(problem))
        else:
            yield from _check_store(files, "frame features", "video", files.published_widths[0], videos, every)
        yield from _check_store(files, "word features", "query", files.published_widths[1], words, every)
        yield from _check_auxiliary(files, words.store)
        if not files.splits:
            yield CheckRow(name, "captions", "error", f"no {name}*.caption.txt in {files.text}")
        texts: dict[str, list[Caption]] = {}
        for split in ("train", "val", "test"):
            if files.splits and split not in files.splits:
                state: CheckState = "error" if split == "train" else "warning"
                file = f"{name}{split}.caption.txt"
                yield CheckRow(name, f"{split} captions", state, f"missing: no {file} in {files.text}", file)
        for split in files.splits:
            yield from _check_split(files, split, spec, videos.store, words.store, texts)
        if "val" in texts and texts["val"] == texts.get("test"):
            found = "the captions are identical: an epoch chosen on val is chosen on test"
            yield CheckRow(name, "val and test", "warning", found)
    finally:
        videos.close()
        words.close()


def _check_auxiliary(files: Collection, words: FeatureStore | None) -> Iterator[CheckRow]:
    """Check the auxiliary captions, which only Cap4Video uses."""
    item, path = "auxiliary captions", files.caption_features
    if path is None:
        yield CheckRow(files.name, item, "ok", "none (optional; Cap4Video then trains without them)")
        return
    try:
        with open_feature_store(path) as store:
            width, grouped = store.width, captions_by_video(store.ids)
    except DataError as problem:
        yield CheckRow(files.name, item, "error", str(problem))
        return
    found = f"{path.name}: {sum(map(len, grouped.values())):,} of {len(grouped):,} videos, {width} wide"
    expected = "" if words is None else f"{words.width} wide"
    yield CheckRow(files.name, item, "ok" if words is None or words.width == width else "error", found, expected)


class _Opened:
    """A store that may have failed to open."""

    store: FeatureStore | None = None

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def _check_store(
    files: Collection, item: str, kind: Literal["video", "query"], width: int | None, opened: _Opened, every: bool
) -> Iterator[CheckRow]:
    try:
        path = files.video_features if kind == "video" else files.query_features
        opened.store = store = open_feature_store(path)
    except DataError as problem:
        yield CheckRow(files.name, item, "error", str(problem))
        return
    wrong_width = width is not None and store.width != width
    yield CheckRow(
        files.name,
        item,
        "error" if wrong_width else "ok",
        f"{path.name}: {len(store.ids):,} ids, {store.width} wide",
        f"{width} wide" if width else "",
    )
    sample = store.ids if every else store.ids[:: max(1, len(store.ids) // SAMPLE)]
    which = f"{item}, {'all' if every else 'sample'}"
    try:
        lengths = [len(store.read(name)) for name in sample]
    except DataError as problem:
        yield CheckRow(files.name, which, "error", str(problem))
    else:
        found = f"{len(sample)} read, {min(lengths)} to {max(lengths)} rows each, all finite"
        yield CheckRow(files.name, which, "ok", found)


def _check_split(
    files: Collection,
    split: str,
    spec: DatasetSpec | None,
    videos: FeatureStore | None,
    words: FeatureStore | None,
    texts: dict[str, list[Caption]],
) -> Iterator[CheckRow]:
    try:
        captions = texts[split] = read_captions(files.captions(split))
    except DataError as problem:
        yield CheckRow(files.name, f"{split} captions", "error", str(problem))
        return
    video_ids = list(dict.fromkeys(caption.video for caption in captions))
    counts = f"{len(video_ids):,} videos, {len(captions):,} sentences"
    published = ""
    if spec and split in spec.videos:
        published = f"{spec.videos[split]:,} videos, {spec.sentences[split]:,} sentences"
    state: CheckState = "ok" if published in ("", counts) else "warning"
    yield CheckRow(files.name, f"{split} captions", state, counts, published)
    yield from _check_cover(files, f"{split} videos without features", video_ids, videos)
    yield from _check_cover(files, f"{split} captions without features", [caption.id for caption in captions], words)
    yield from _check_extras(files, split, {caption.id for caption in captions})


def _check_cover(files: Collection, item: str, names: Sequence[str], store: FeatureStore | None) -> Iterator[CheckRow]:
    if store is not None:
        absent = [name for name in names if stored_name(store, name) is None]
        found = f"{len(absent):,} ({summarise_names(absent)})" if absent else "0"
        yield CheckRow(files.name, item, "error" if absent else "ok", found, "0")


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
