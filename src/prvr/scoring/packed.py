"""A gallery in the form that the fused kernel reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from prvr.scoring.storage import Vectors

if TYPE_CHECKING:
    from prvr.scoring.gallery import Gallery

MOST_REGISTERS = 16
MOST_FIXED = 32  # tokens of the short set that share a tile with registers and attended values
_SIDE = 2 * MOST_REGISTERS + MOST_FIXED  # rows of that tile


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


def pack_gallery(gallery: Gallery) -> Packed:
    """Lay a gallery out for the kernel."""
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
