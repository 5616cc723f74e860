"""Build the tables of ``Prepared`` from feature files, or find them where an earlier run left them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.data.cache import cache_home, cached, fingerprint
from prvr.data.errors import DataError, few
from prvr.data.layout import Collection
from prvr.data.prepared import Prepared, Recipe, read_tables
from prvr.data.progress import track
from prvr.data.resample import normalise_rows, sample_clips, sample_frames
from prvr.data.stores import FeatureStore, open_store, store_files

Array = NDArray[np.float32]


def prepare(
    place: Collection,
    split: str,
    video_ids: Sequence[str],
    query_ids: Sequence[str],
    recipe: Recipe,
    cache_dir: Path | None = None,
) -> Prepared:
    """The tables of one split; features are read only if no cache matches the files as they are now."""
    video_path, query_path = place.video_features, place.query_features

    def build(folder: Path) -> None:
        with open_store(video_path) as videos, open_store(query_path) as queries:
            _require(videos, video_ids, video_path, "videos named in the captions")
            _require(queries, query_ids, query_path, "captions")
            _write_tables(folder, videos, video_ids, queries, query_ids, recipe, f"{place.name} {split}")

    name = f"{place.name}{split}-{place.visual_feature}-c{recipe.clips}-f{recipe.frames}-w{recipe.words}"
    sources = [place.captions(split), query_path, *store_files(video_path)]
    version = f"v{recipe.version}-{fingerprint(sources)}"
    return read_tables(cached(cache_home(place.folder, cache_dir), name, version, build))


def _require(store: FeatureStore, names: Sequence[str], path: Path, what: str) -> None:
    absent = [name for name in names if name not in store]
    if absent:
        raise DataError(
            f"{path} has no features for {len(absent)} of {len(names)} {what} ({few(absent)}); "
            "fetch the features of this collection again, or take those lines out of the caption file."
        )


def _write_tables(
    folder: Path,
    videos: FeatureStore,
    video_ids: Sequence[str],
    queries: FeatureStore,
    query_ids: Sequence[str],
    recipe: Recipe,
    label: str,
) -> None:
    """Resample and normalise everything into ``folder``."""

    def frames_and_clips(raw: Array) -> tuple[Array, ...]:
        return normalise_rows(sample_frames(raw, recipe.frames)), normalise_rows(sample_clips(raw, recipe.clips))

    videos_read = map(videos.read, track(video_ids, total=len(video_ids), label=f"preparing {label} videos"))
    frame_counts, _ = _stream(folder, ("frames", "clips"), videos_read, frames_and_clips, videos.width)
    word_counts = write_words(folder, queries, query_ids, recipe.words, f"{label} queries")
    np.save(folder / "frame_count.npy", np.array(frame_counts, dtype=np.int64))
    np.save(folder / "word_count.npy", np.array(word_counts, dtype=np.int64))
    meta = {"recipe": asdict(recipe), "visual_width": videos.width, "query_width": queries.width}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def write_words(folder: Path, store: FeatureStore, names: Sequence[str], words: int, label: str) -> list[int]:
    """The first words of each sentence, normalised, as the table ``words.f32``; returns how many each has."""

    def first_words(raw: Array) -> tuple[Array, ...]:
        return (normalise_rows(raw[:words]),)

    sentences = map(store.read, track(names, total=len(names), label=f"preparing {label}"))
    (counts,) = _stream(folder, ("words",), sentences, first_words, store.width)
    return counts


def _stream(
    folder: Path,
    names: tuple[str, ...],
    items: Iterable[Array],
    change: Callable[[Array], tuple[Array, ...]],
    width: int,
) -> list[list[int]]:
    """Append each item's tables to their files, and a last row of zeros; returns the rows each item took, per table."""
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
