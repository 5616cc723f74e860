"""Builds ``FeatureTables`` from feature files, or finds them in the cache of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.data.cache import cache_home, cached_folder, fingerprint
from prvr.data.errors import DataError, summarise_names
from prvr.data.feature_tables import CLIP_SIZES, FeatureTables, TableSettings, read_tables
from prvr.data.layout import Collection
from prvr.data.progress_bar import show_progress
from prvr.data.resample import normalise_rows
from prvr.data.rules import prepare_video
from prvr.data.store_base import FeatureStore
from prvr.data.stores import open_feature_store, store_files, stored_name

Array = NDArray[np.float32]


def prepare_tables(
    collection: Collection,
    split: str,
    video_ids: Sequence[str],
    query_ids: Sequence[str],
    settings: TableSettings,
    cache_dir: Path | None = None,
) -> FeatureTables:
    """The tables of one split. Features are read only if no cache entry matches the current files."""
    video_path, query_path = collection.video_features, collection.query_features

    def build(folder: Path) -> None:
        with open_feature_store(video_path) as videos, open_feature_store(query_path) as queries:
            _require(videos, video_ids, video_path, "videos named in the captions")
            _require(queries, query_ids, query_path, "captions")
            _write_tables(folder, videos, video_ids, queries, query_ids, settings, f"{collection.name} {split}")

    name = (
        f"{collection.name}{split}-{collection.visual_feature}-c{settings.clips}-f{settings.frames}-w{settings.words}"
        + ("" if settings.rule == "standard" else f"-{settings.rule}")
    )
    sources = [collection.captions(split), *store_files(query_path), *store_files(video_path)]
    version = f"v{settings.version}-{fingerprint(sources)}"
    return read_tables(cached_folder(cache_home(collection.folder, cache_dir), name, version, build))


def _require(store: FeatureStore, names: Sequence[str], path: Path, what: str) -> None:
    absent = [name for name in names if stored_name(store, name) is None]
    if absent:
        raise DataError(
            f"{path} has no features for {len(absent)} of {len(names)} {what} ({summarise_names(absent)}); "
            "download the features of this collection again, or remove those lines from the caption file."
        )


def _write_tables(
    folder: Path,
    videos: FeatureStore,
    video_ids: Sequence[str],
    queries: FeatureStore,
    query_ids: Sequence[str],
    settings: TableSettings,
    label: str,
) -> None:
    """Resample and normalise everything into ``folder``."""

    sizes: list[NDArray[np.int64]] = []

    def frames_and_clips(raw: Array) -> tuple[Array, ...]:
        frames, clips, sizes_of_clips = prepare_video(raw, settings)
        sizes.extend([] if sizes_of_clips is None else [sizes_of_clips])
        return frames, clips

    names = show_progress(video_ids, total=len(video_ids), label=f"preparing {label} videos")
    videos_read = (videos.read(stored_name(videos, name) or name) for name in names)
    frame_counts, _ = _stream(folder, ("frames", "clips"), videos_read, frames_and_clips, videos.width)
    word_counts = write_words(folder, queries, query_ids, settings.words, f"{label} queries")
    if settings.rule == "merged":
        _require_sentence_vectors(queries, query_ids, settings.words)
        np.save(folder / CLIP_SIZES, np.array(sizes, dtype=np.float32))
    np.save(folder / "frame_count.npy", np.array(frame_counts, dtype=np.int64))
    np.save(folder / "word_count.npy", np.array(word_counts, dtype=np.int64))
    meta = {"recipe": asdict(settings), "visual_width": videos.width, "query_width": queries.width}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _require_sentence_vectors(store: FeatureStore, names: Sequence[str], words: int) -> None:
    """Refuse word features that are padded: their last row should be the sentence's own vector (CLIP's end token)."""
    names = [stored_name(store, name) or name for name in names]
    lengths = {store.length(name) for name in names}
    if len(names) > 1 and len(lengths) == 1 and max(lengths) >= words > 1:
        found = f"all {len(names):,} captions have {max(lengths)} rows"
    elif empty := [name for name in names if not store.read(name)[-1].any()]:
        found = f"{len(empty):,} of {len(names):,} captions end with a row of zeros ({summarise_names(empty)})"
    else:
        return
    raise DataError(
        f"{found}: these word features are padded, but this method takes a caption's last row for its sentence "
        "vector; store each caption up to its end token."
    )


def write_words(folder: Path, store: FeatureStore, names: Sequence[str], words: int, label: str) -> list[int]:
    """Write the first words of each sentence, normalised, as ``words.f32``; returns the number of words of each."""

    def first_words(raw: Array) -> tuple[Array, ...]:
        return (normalise_rows(raw[:words]),)

    shown = show_progress(names, total=len(names), label=f"preparing {label}")
    sentences = (store.read(stored_name(store, name) or name) for name in shown)
    (counts,) = _stream(folder, ("words",), sentences, first_words, store.width)
    return counts


def _stream(
    folder: Path,
    names: tuple[str, ...],
    items: Iterable[Array],
    change: Callable[[Array], tuple[Array, ...]],
    width: int,
) -> list[list[int]]:
    """Append each item's tables to their files, and a last row of zeros; returns the rows of each item, per table."""
    files = [(folder / f"{name}.f32").open("wb", buffering=1 << 20) for name in names]
    counts: list[list[int]] = [[] for _ in names]
    try:
        for item in items:
            for file, count, table in zip(files, counts, change(item), strict=True):
                file.write(np.ascontiguousarray(table, dtype="<f4").data)
                count.append(len(table))
        for file in files:
            file.write(np.zeros(width, dtype="<f4").data)
    finally:
        for file in files:
            file.close()
    return counts
