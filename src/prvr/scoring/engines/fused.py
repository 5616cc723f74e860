"""The triton engine: base score and evidence in one pass over the gallery, on a CUDA device.

This side decides whether the kernel can run and cuts the work; ``prvr.scoring.packed`` lays a gallery out for it, and
``fused_kernel`` holds the kernel itself.
"""

from __future__ import annotations

import importlib.util
from typing import Any, TypeAlias

import torch

from prvr.scoring.engines.common import Queries, Scores, Tile, slices
from prvr.scoring.gallery import Gallery
from prvr.scoring.packed import MOST_FIXED, MOST_REGISTERS

KernelTiles: TypeAlias = Any  # a ``triton.Config``

_WIDTH_STEP = 64
_PAGES = (16, 32, 64, 128)
SCORES_AT_ONCE = 1 << 28  # a tile of base and evidence scores: 2 GB
QUERIES_AT_ONCE = 1 << 15
_VIDEOS_AT_ONCE = 4 * 65_535  # the most rows of programs in a grid, times the fewest videos of a program


def fused_obstacle(gallery: Gallery) -> str:
    """Why this engine cannot score a gallery, in a sentence; empty if it can."""
    if here := fused_device_obstacle(gallery.device):
        return here
    if gallery.storage == "fp64":
        return "the gallery is kept in float64"
    if len(gallery.weights.fixed) > 1 or sum(n for _, n in gallery.weights.fixed) > MOST_FIXED:
        return f"the triton engine takes one short token set of at most {MOST_FIXED} tokens"
    if gallery.registers is not None and gallery.registers.shape[1] > MOST_REGISTERS:
        return f"the triton engine takes at most {MOST_REGISTERS} registers, found {gallery.registers.shape[1]}"
    if gallery.routes is not None and gallery.routes.grounding.dtype == torch.float64:
        return f"temperature {gallery.config.temperature} needs float64 routing"
    if gallery.width % _WIDTH_STEP:
        return f"the triton engine needs a width that {_WIDTH_STEP} divides, found {gallery.width}"
    if gallery.page not in _PAGES:
        return f"the triton engine takes pages of {', '.join(map(str, _PAGES))} slots, found {gallery.page}"
    return ""


def fused_device_obstacle(device: torch.device) -> str:
    """Why this engine does not run on a device, for any gallery; empty if it does."""
    if device.type != "cuda":
        return f"the gallery is on {device.type}, and the triton engine needs a CUDA device"
    if importlib.util.find_spec("triton") is None or not _has_descriptors():
        return "Triton 3.4 or newer is not installed (pip install triton)"
    if torch.cuda.get_device_capability(device) < (9, 0):
        return "the triton engine needs a GPU of compute capability 9.0 or newer"
    return ""


class FusedEngine:
    """The triton engine."""

    def __init__(self, *, scores_at_once: int = SCORES_AT_ONCE, queries_at_once: int = QUERIES_AT_ONCE) -> None:
        self.scores_at_once = scores_at_once
        self.queries_at_once = queries_at_once

    def plan(self, queries: int, gallery: Gallery) -> list[Tile]:
        """Large tiles: the kernel stores only their scores."""
        step = max(1, min(queries, self.queries_at_once))
        runs = slices(len(gallery), min(self.scores_at_once // step, _VIDEOS_AT_ONCE))
        return [Tile(rows, videos) for videos in runs for rows in slices(queries, step)]

    def compute(self, queries: Queries, gallery: Gallery, tile: Tile) -> Scores:
        return self.launch(queries[tile.queries], gallery, tile.videos)

    def launch(
        self,
        queries: Queries,
        gallery: Gallery,
        videos: slice,
        *,
        plain: bool = False,
        tiles: KernelTiles | None = None,
    ) -> Scores:
        """Score queries against a run of videos in one launch of the kernel.

        For measuring: ``plain`` computes maxima alone, over as many columns; ``tiles`` skips the tuning.
        """
        from prvr.scoring.engines import fused_kernel

        return fused_kernel.launch(queries, gallery, gallery.packed, videos, plain=plain, like=tiles)

    def tuned_tiles(self) -> KernelTiles:
        """The tiles that the last launch chose."""
        from prvr.scoring.engines import fused_kernel

        return fused_kernel.tuned()


def _has_descriptors() -> bool:
    try:
        return importlib.util.find_spec("triton.tools.tensor_descriptor") is not None
    except ModuleNotFoundError:
        return False
