"""One split's features, resampled and normalised, as tables that batches are gathered from.

Reading features from HDF5 is slow and is the same work every epoch. So it is done once: ``prepare_tables`` writes three
flat tables into a cache folder, and ``FeatureTables`` maps them into memory. A table ends with one row of zeros for
padding: a padded batch is then a single gather, on any device.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.data.errors import DataError
from prvr.tokens import FeatureRule

CLIP_SIZES = "clip_sizes.npy"
TABLE_VERSION = 1  # raise it whenever the numbers in the tables change, so that old caches are not read


@dataclass(frozen=True)
class TableSettings:
    """The sizes to which raw features are cut or resampled, and by which rule."""

    clips: int = 32
    frames: int = 128
    words: int = 30
    rule: FeatureRule = "standard"
    version: int = TABLE_VERSION


@dataclass(frozen=True)
class FeatureTables:
    """Ragged tables, and the rows of each video and query in them.

    The tables may be memory-mapped or on a device; the small index tensors stay on the CPU, where batch shapes are
    decided.
    """

    frames: Tensor  # (ΣM + 1, Dv), last row zero
    frame_start: Tensor  # (V,)
    frame_count: Tensor  # (V,)
    clips: Tensor  # (all videos, C, Dv)
    clip_row: Tensor  # (V,)
    words: Tensor  # (ΣL + 1, Dq), last row zero
    word_start: Tensor  # (Q,)
    word_count: Tensor  # (Q,)
    clip_sizes: Tensor | None = None  # (all videos, C) slots that each clip stands for; None: equal stretches

    def to(self, device: torch.device | str) -> FeatureTables:
        """Copy the tables to a device, so that batches are assembled there."""
        return replace(self, frames=self.frames.to(device), clips=self.clips.to(device), words=self.words.to(device))

    def select(self, videos: Tensor, queries: Tensor) -> FeatureTables:
        """The same tables for some of the videos and queries."""
        return replace(
            self,
            frame_start=self.frame_start[videos],
            frame_count=self.frame_count[videos],
            clip_row=self.clip_row[videos],
            word_start=self.word_start[queries],
            word_count=self.word_count[queries],
        )

    def frame_batch(self, videos: Tensor) -> tuple[Tensor, Tensor]:
        """Frames padded to the longest, (V, M, Dv), and their mask, (V, M)."""
        return gather_padded(self.frames, self.frame_start[videos], self.frame_count[videos])

    def clip_batch(self, videos: Tensor) -> Tensor:
        """(V, C, Dv)"""
        return self.clips.index_select(0, self.clip_row[videos].to(self.clips.device))

    def size_batch(self, videos: Tensor) -> Tensor | None:
        """Sizes of clips, (V, C), where clips are of uneven length."""
        sizes = self.clip_sizes
        return None if sizes is None else sizes[self.clip_row[videos]].to(self.clips.device)

    def word_batch(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Words padded to the longest, (Q, L, Dq), and their mask, (Q, L)."""
        return gather_padded(self.words, self.word_start[queries], self.word_count[queries])


def read_tables(folder: Path) -> FeatureTables:
    """Map what ``prepare_tables`` wrote; data is read when it is used."""
    try:
        return _read_tables(folder)
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        raise DataError(f"{folder} is damaged ({problem}); delete it; the next run rebuilds it.") from problem


def _read_tables(folder: Path) -> FeatureTables:
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    frame_count = torch.from_numpy(np.load(folder / "frame_count.npy", allow_pickle=False))
    word_count = torch.from_numpy(np.load(folder / "word_count.npy", allow_pickle=False))
    visual_width, clips = int(meta["visual_width"]), int(meta["recipe"]["clips"])
    sizes = folder / CLIP_SIZES
    return FeatureTables(
        frames=map_table(folder / "frames.f32", visual_width, rows=int(frame_count.sum())),
        frame_start=frame_count.cumsum(0) - frame_count,
        frame_count=frame_count,
        clips=map_table(folder / "clips.f32", visual_width, rows=len(frame_count) * clips)[:-1].view(
            len(frame_count), clips, visual_width
        ),
        clip_row=torch.arange(len(frame_count)),
        words=map_table(folder / "words.f32", int(meta["query_width"]), rows=int(word_count.sum())),
        word_start=word_count.cumsum(0) - word_count,
        word_count=word_count,
        clip_sizes=torch.from_numpy(np.load(sizes, allow_pickle=False)) if sizes.is_file() else None,
    )


def map_table(path: Path, width: int, rows: int) -> Tensor:
    """(rows + 1, width); the last row is the zeros of padding."""
    found, expected = path.stat().st_size, (rows + 1) * width * 4
    if found != expected:
        raise ValueError(f"{path.name} has {found:,} bytes instead of {expected:,}")
    # Copy-on-write, because torch has no read-only tensors. Nothing writes to it, so nothing is copied.
    mapped: NDArray[Any] = np.memmap(path, dtype="<f4", mode="c", shape=(rows + 1, width))
    return torch.from_numpy(mapped)


def gather_padded(table: Tensor, starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows ``start … start + count`` of each item, padded with the last row: (N, longest, D) and mask (N, longest)."""
    longest = max(1, int(counts.max())) if len(counts) else 0  # at least one slot, also where no video has a caption
    steps = torch.arange(longest)
    mask = steps < counts[:, None]  # (N, longest)
    rows = torch.where(mask, starts[:, None] + steps, len(table) - 1)
    rows, mask = rows.to(table.device), mask.to(table.device)
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1]), mask
