"""What the engines share: prepared queries, scores in two parts, and tiles of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.scoring.gallery import Gallery
from prvr.tokens import TensorRecord
from prvr.trace import fuse


class Scores(NamedTuple):
    """Base and evidence scores side by side, (Q, V) each; ``trace`` is None for a gallery without TRACE."""

    base: Tensor
    trace: Tensor | None

    def final(self, fusion_weight: float) -> Tensor:
        return self.base if self.trace is None else fuse(self.base, self.trace, fusion_weight)


@dataclass(frozen=True)
class Queries(TensorRecord):
    """Unit queries (Q, D) and the scale 1/‖W q‖ for folded vectors."""

    unit: Tensor  # (Q, D)
    scale: Tensor  # (Q,)

    def __len__(self) -> int:
        return self.unit.shape[0]

    def __getitem__(self, rows: slice) -> Queries:
        return self.map(lambda tensor: tensor[rows])


def prepare_queries(queries: Tensor, gallery: Gallery) -> Queries:
    """(Q, D) on any device → the gallery's device and its working precision."""
    if queries.ndim != 2 or queries.shape[1] != gallery.width:
        raise ValueError(f"queries have shape {tuple(queries.shape)}, but this gallery is {gallery.width} wide")
    dtype = torch.float64 if gallery.storage == "fp64" else torch.float32
    unit = F.normalize(queries.to(gallery.device, dtype), dim=-1)
    if gallery.query_projection is None:
        return Queries(unit, unit.new_ones(len(unit)))
    length = (unit @ gallery.query_projection.to(dtype).T).norm(dim=-1)
    return Queries(unit, 1 / length.clamp(min=1e-12))


class Tile(NamedTuple):
    """A block of the score matrix."""

    queries: slice
    videos: slice


class ScoringEngine(Protocol):
    """Cuts the score matrix into tiles, and computes a tile."""

    def plan(self, queries: int, gallery: Gallery) -> list[Tile]:
        """Tiles that cover this many queries and the whole gallery."""

    def compute(self, queries: Queries, gallery: Gallery, tile: Tile) -> Scores:
        """Scores of one tile. ``queries`` are all of them, as ``prepare_queries`` returns them."""


def slices(total: int, step: int) -> Iterator[slice]:
    step = max(1, step)
    return (slice(start, min(start + step, total)) for start in range(0, total, step))


def video_slices(gallery: Gallery, pages: int) -> Iterator[slice]:
    """Runs of videos of about this many pages; a longer video is a separate run."""
    first = gallery.first_page
    start = 0
    while start < len(gallery):
        stop = int(torch.searchsorted(first, first[start] + max(1, pages), right=True)) - 1
        stop = min(max(stop, start + 1), len(gallery))
        yield slice(start, stop)
        start = stop


def cut_to(tiles: Iterable[Tile], scores: int) -> Iterator[Tile]:
    """The same work in tiles of at most this many scores (or one video), cut along the videos."""
    for rows, videos in tiles:
        for part in slices(videos.stop - videos.start, scores // max(1, rows.stop - rows.start)):
            yield Tile(rows, slice(videos.start + part.start, videos.start + part.stop))


def per_video(of_pages: Tensor, gallery: Gallery) -> Tensor:
    """The largest value over a video's pages, (P, Q) → (V, Q)."""
    if len(of_pages) == len(gallery):
        return of_pages
    pages = gallery.first_page.diff().to(of_pages.device)
    owner = torch.arange(len(gallery), device=of_pages.device).repeat_interleave(pages)
    best = of_pages.new_full((len(gallery), of_pages.shape[1]), -torch.inf)
    return best.scatter_reduce_(0, owner[:, None].expand_as(of_pages), of_pages, "amax")
