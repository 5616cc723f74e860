"""Auxiliary captions: sentences that a person or a model wrote about a video, as word features.

    ROOT/charades/TextData/roberta_charades_caption_feat.hdf5

One (words, width) dataset per caption, made by the encoder of the query features. Its key is ``VIDEO#NAME``: the part
before the first ``#`` is the video, the rest names and orders its captions (by the number it starts
with, so ``VIDEO#2`` precedes ``VIDEO#10`` and ``VIDEO#0.0-8.5`` precedes ``VIDEO#8.5-20``; then by name). A video may
have none. Only some methods read them (Cap4Video).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from prvr.data.cache import cache_home, cached_folder, fingerprint
from prvr.data.errors import DataError
from prvr.data.feature_tables import gather_padded, map_table
from prvr.data.layout import Collection
from prvr.data.preparation import write_words
from prvr.data.store_base import FeatureStore
from prvr.data.stores import open_feature_store, store_files


@dataclass(frozen=True)
class AuxiliaryCaptions:
    """Word features of captions, and where each one is: T slots per video, unused slots have no words."""

    words: Tensor  # (ΣL + 1, Dq), last row zero
    start: Tensor  # (V, T)
    count: Tensor  # (V, T) words of each caption; 0: no caption

    @property
    def width(self) -> int:
        return self.words.shape[1]

    def to(self, device: torch.device | str) -> AuxiliaryCaptions:
        """Copy the table to a device; the index stays on the CPU, where batch shapes are decided."""
        return replace(self, words=self.words.to(device))

    def select(self, videos: Tensor) -> AuxiliaryCaptions:
        """The same table for some of the videos."""
        return replace(self, start=self.start[videos], count=self.count[videos])

    def batch(self, videos: Tensor) -> tuple[Tensor, Tensor]:
        """Captions of some videos, (V, T, L, Dq), and the mask of their words, (V, T, L)."""
        start, count = self.start[videos], self.count[videos]
        words, mask = gather_padded(self.words, start.flatten(), count.flatten())
        return words.view(*start.shape, *words.shape[1:]), mask.view(*start.shape, -1)


def load_auxiliary(
    collection: Collection,
    split: str,
    video_ids: Sequence[str],
    *,
    slots: int,
    words: int,
    cache_dir: Path | None = None,
) -> AuxiliaryCaptions:
    """Load the first ``slots`` captions of each video, ``words`` words of each. They are cached like other features."""
    path = collection.caption_features
    if path is None:
        raise DataError(
            f"{collection.usual_caption_features} is missing, but the model reads auxiliary captions; put them there "
            "(one (words, width) dataset per caption, named VIDEO#0, VIDEO#1 …), or train without them: "
            "--model.captions False"
        )

    def build(folder: Path) -> None:
        with open_feature_store(path) as store:
            grouped = captions_by_video(store.ids)
            chosen = [grouped.get(video, [])[:slots] for video in video_ids]
            if not any(chosen):
                raise DataError(f"{path} holds no caption of any {split} video; its keys should be VIDEO#0, VIDEO#1 …")
            _write(folder, store, chosen, words, f"{collection.name} {split} captions")

    name = f"{collection.name}{split}-captions-t{slots}-w{words}"
    version = f"v1-{fingerprint([collection.captions(split), *store_files(path)])}"
    return _read(cached_folder(cache_home(collection.folder, cache_dir), name, version, build))


def captions_by_video(keys: Iterable[str]) -> dict[str, list[str]]:
    """Keys of each video, in order.

    >>> captions_by_video(["a#10", "b#0-4.5", "a#2", "a#x"])
    {'a': ['a#2', 'a#10', 'a#x'], 'b': ['b#0-4.5']}
    """
    grouped: dict[str, list[str]] = {}
    for key in sorted(keys, key=_caption_order):
        grouped.setdefault(key.partition("#")[0], []).append(key)
    return grouped


def _caption_order(key: str) -> tuple[str, float, str]:
    video, _, name = key.partition("#")
    number = re.match(r"\d+(\.\d+)?", name)
    return video, float(number[0]) if number else float("inf"), name


def _write(folder: Path, store: FeatureStore, chosen: Sequence[Sequence[str]], words: int, label: str) -> None:
    counts = write_words(folder, store, [key for keys in chosen for key in keys], words, label)
    np.save(folder / "word_count.npy", np.array(counts, dtype=np.int64))
    np.save(folder / "caption_count.npy", np.array([len(keys) for keys in chosen], dtype=np.int64))
    np.save(folder / "width.npy", np.array(store.width, dtype=np.int64))


def _read(folder: Path) -> AuxiliaryCaptions:
    try:
        lengths, captions, width = (
            torch.from_numpy(np.load(folder / f"{name}.npy", allow_pickle=False))
            for name in ("word_count", "caption_count", "width")
        )
        table = map_table(folder / "words.f32", int(width), rows=int(lengths.sum()))
    except (OSError, ValueError) as problem:
        raise DataError(f"{folder} is damaged ({problem}); delete it; the next run rebuilds it.") from problem
    used = torch.arange(int(captions.max())) < captions[:, None]  # (V, T)
    start, count = torch.zeros(used.shape, dtype=torch.long), torch.zeros(used.shape, dtype=torch.long)
    start[used], count[used] = lengths.cumsum(0) - lengths, lengths
    return AuxiliaryCaptions(table, start, count)
