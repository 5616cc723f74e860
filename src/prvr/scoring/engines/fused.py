"""The triton engine: base score and evidence in one pass over the gallery, on a CUDA device.

This side packs a gallery for the kernel, once; ``fused_kernel`` holds the kernel itself.
"""

from __future__ import annotations

import importlib.util
import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.scoring.engines.common import Queries, Scores, Tile, slices
from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors

MOST_REGISTERS = 16
MOST_FIXED = 32  # tokens of the short set that share a tile with registers and attended values
_SIDE = 2 * MOST_REGISTERS + MOST_FIXED  # rows of that tile
_WIDTH_STEP = 64
_PAGES = (16, 32, 64, 128)
_SCORES_AT_ONCE = 1 << 28  # a tile of base and evidence scores: 2 GB
_QUERIES_AT_ONCE = 1 << 15
_VIDEOS_AT_ONCE = 4 * 65_535  # a grid has so many rows of programs, and a program walks over four videos or more


@dataclass(frozen=True)
class Packed:
    """A gallery as the kernel reads it."""

    local: Tensor  # (P·page, D)
    keys: Tensor | None  # (P·page, D)
    side: Tensor | None  # (V·64, D): the short set (padded with its first token), registers, attended values
    local_scale: Tensor | None  # (P·page,) for eight-bit vectors
    key_scale: Tensor | None
    side_scale: Tensor | None
    grounding: Tensor | None  # (P, 16, page) bf16
    gram: Tensor | None  # (V, 16, 16) bf16
    ceiling: Tensor | None  # (V,)
    first_page: Tensor  # (V + 1,) int32


_packed: weakref.WeakKeyDictionary[Gallery, Packed] = weakref.WeakKeyDictionary()


def obstacle(gallery: Gallery) -> str:
    """Why this engine cannot score a gallery, in a sentence; empty if it can."""
    if here := device_obstacle(gallery.device):
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


def device_obstacle(device: torch.device) -> str:
    """Why this engine does not run on a device, whatever the gallery; empty if it does."""
    if device.type != "cuda":
        return f"the gallery is on {device.type}, and the triton engine needs a CUDA device"
    if importlib.util.find_spec("triton") is None or not _has_descriptors():
        return "Triton 3.4 or newer is not installed (pip install triton)"
    if torch.cuda.get_device_capability(device) < (9, 0):
        return "the triton engine needs a GPU of compute capability 9.0 or newer"
    return ""


def plan(queries: int, gallery: Gallery) -> list[Tile]:
    """Large tiles: the kernel holds nothing but their scores."""
    step = max(1, min(queries, _QUERIES_AT_ONCE))
    runs = slices(len(gallery), min(_SCORES_AT_ONCE // step, _VIDEOS_AT_ONCE))
    return [Tile(rows, videos) for videos in runs for rows in slices(queries, step)]


def compute(queries: Queries, gallery: Gallery, tile: Tile) -> Scores:
    from prvr.scoring.engines import fused_kernel

    return fused_kernel.launch(queries[tile.queries], gallery, pack(gallery), tile.videos)


def pack(gallery: Gallery) -> Packed:
    """The kernel's form of a gallery, kept for as long as the gallery itself."""
    if gallery not in _packed:
        _packed[gallery] = _pack(gallery)
    return _packed[gallery]


def _pack(gallery: Gallery) -> Packed:
    routes = gallery.routes
    side = _side(gallery)
    return Packed(
        local=_rows(gallery.local.values),
        keys=None if gallery.keys is None else _rows(gallery.keys.values),
        side=None if side is None else _rows(side.values),
        local_scale=_flat(gallery.local.scale),
        key_scale=None if gallery.keys is None else _flat(gallery.keys.scale),
        side_scale=None if side is None else _flat(side.scale),
        grounding=None if routes is None else _padded(routes.grounding, 1).bfloat16().contiguous(),
        gram=None if routes is None else _padded(_padded(routes.gram, 1), 2).bfloat16().contiguous(),
        ceiling=None if routes is None else routes.ceiling.float().contiguous(),
        first_page=gallery.first_page.to(gallery.device, torch.int32),
    )


def _side(gallery: Gallery) -> Vectors | None:
    """Short set, registers and values in one tile of 64 rows per video."""
    if gallery.fixed is None and gallery.registers is None:
        return None
    parts: list[tuple[Vectors | None, int]] = [(gallery.fixed, MOST_FIXED)]
    parts += [(gallery.registers, MOST_REGISTERS), (gallery.values, MOST_REGISTERS)]
    videos, width = len(gallery), gallery.width
    values = gallery.local.values.new_zeros(videos, _SIDE, width)
    scale = None if gallery.local.scale is None else torch.ones(videos, _SIDE, device=gallery.device)
    start = 0
    for part, room in parts:
        if part is not None:
            count = part.shape[1]
            values[:, start : start + count] = part.values
            if scale is not None and part.scale is not None:
                scale[:, start : start + count] = part.scale
            if part is gallery.fixed:  # its empty slots repeat the first token: they can win nothing new
                values[:, start + count : start + room] = part.values[:, :1]
                if scale is not None and part.scale is not None:
                    scale[:, start + count : start + room] = part.scale[:, :1]
        start += room
    return Vectors(values, scale)


def _rows(values: Tensor) -> Tensor:
    return values.contiguous().view(-1, values.shape[-1])


def _flat(scale: Tensor | None) -> Tensor | None:
    return None if scale is None else scale.float().contiguous().view(-1)


def _padded(tensor: Tensor, axis: int) -> Tensor:
    """Zeros up to 16 registers along an axis."""
    shape = list(tensor.shape)
    shape[axis] = MOST_REGISTERS
    padded = tensor.new_zeros(shape)
    padded.narrow(axis, 0, tensor.shape[axis]).copy_(tensor)
    return padded


def _has_descriptors() -> bool:
    try:
        return importlib.util.find_spec("triton.tools.tensor_descriptor") is not None
    except ModuleNotFoundError:
        return False
