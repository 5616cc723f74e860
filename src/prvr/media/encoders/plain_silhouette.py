"""The outline of the most compact patch of colour in a picture, in an upright grid of its own.

Shapes differ little in where their edges point: a ring has the edges of a disc, a cross those of a square. They differ
in what they cover. So one patch is picked (the colour that lies closest together), and its cover is sampled in
``CELLS`` × ``CELLS`` cells around its middle, scaled by its spread: wherever the patch is and however large, the same
shape gives the same cells.

``shape_cells`` draws simple shapes in that grid, so that a word such as "ring" can be compared with a picture.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from prvr.media.encoders.base import Array, unit_rows

CELLS = 6  # per side
_REACH = 2.1  # half a side of the grid, in deviations of the patch: a disc ends at 2, the corners of a square at 1.73
_WIDEST = 0.24  # of the picture's side: deviation of a patch; a colour that fills the picture's width has 0.29
_LEAST_MASS = 0.004  # share of the picture that a patch covers at least; less is noise
_SURE = 0.5  # a pixel belongs to a colour from here on
_SAMPLES = 2 * CELLS  # per side; each cell is the mean of four
_ALIKE = 0.3  # ridge: how far shape_cells may go to tell similar shapes apart before it amplifies noise


def silhouettes(colours: Array) -> Array:
    """The silhouette in each picture: colour memberships (N, SIDE, SIDE, colours) → cells (N, CELLS²), 0 to 1.

    Where no patch of colour is compact, all cells are zero.
    """
    count, side = colours.shape[:2]
    sure = (colours > _SURE).astype(np.float32)
    columns, rows = sure.sum(1), sure.sum(2)  # (N, SIDE, colours)
    (across, spread_x), (down, spread_y) = _spread(columns), _spread(rows)  # (N, colours) each
    mass, spread = columns.sum(1) / side**2, np.maximum(np.maximum(spread_x, spread_y), 0.5 / side)
    density = np.where((mass > _LEAST_MASS) & (spread < _WIDEST), mass / spread**2, 0.0)
    patch = np.arange(count), density.argmax(1)
    steps = _REACH * spread[patch][:, None] * ((2 * np.arange(_SAMPLES) + 1) / _SAMPLES - 1)
    x, y = across[patch][:, None] + steps, down[patch][:, None] + steps  # (N, SAMPLES) shares of the side
    samples = _sample(colours[patch[0], :, :, patch[1]], x * side, y * side)
    cells = samples.reshape(count, CELLS, 2, CELLS, 2).mean((2, 4)).reshape(count, -1)
    found: Array = cells * (density[patch] > 0)[:, None].astype(np.float32)
    return found


def _spread(profile: Array) -> tuple[Array, Array]:
    """Mean and deviation of each colour's place along one side, as shares of it: (N, SIDE, colours) → (N, colours)."""
    side = profile.shape[1]
    place = ((np.arange(side, dtype=np.float32) + np.float32(0.5)) / np.float32(side))[:, None]
    mass = np.maximum(profile.sum(1), 1e-6)
    middle = (profile * place).sum(1) / mass
    return middle, np.sqrt(np.maximum((profile * place**2).sum(1) / mass - middle**2, 0.0))


def _sample(planes: Array, x: Array, y: Array) -> Array:
    """Values of planes (N, SIDE, SIDE) at columns x (N, K) and rows y (N, K), in pixels: (N, K, K); zero outside."""
    count, side = planes.shape[:2]
    padded = np.zeros((count, side + 2, side + 2), np.float32)
    padded[:, 1:-1, 1:-1] = planes
    x, y = np.clip(x + 0.5, 0, side + 0.999), np.clip(y + 0.5, 0, side + 0.999)
    left, top = x.astype(np.int64), y.astype(np.int64)
    across, down = (x - left)[:, None, :].astype(np.float32), (y - top)[:, :, None].astype(np.float32)
    rows, left, top = np.arange(count)[:, None, None], left[:, None, :], top[:, :, None]
    above = (1 - across) * padded[rows, top, left] + across * padded[rows, top, left + 1]
    below = (1 - across) * padded[rows, top + 1, left] + across * padded[rows, top + 1, left + 1]
    values: Array = (1 - down) * above + down * below
    return values


@cache
def shape_cells() -> dict[str, Array]:
    """What tells simple shapes apart: a direction of unit length for each, which other shapes have least of."""
    side = 64
    x, y = np.meshgrid(*2 * [(np.arange(side) + 0.5) / side - 0.5])
    far, along, size = np.hypot(x, y), np.maximum(np.abs(x), np.abs(y)), 0.25
    inside = {
        "circle": far < size,
        "ring": (far < size) & (far > size / 2),
        "square": along < 0.88 * size,
        "diamond": np.abs(x) + np.abs(y) < 1.2 * size,
        "triangle": (y < 0.6 * size) & (0.87 * np.abs(x) < 0.5 * (y + size)),
        "cross": (along < size) & (np.minimum(np.abs(x), np.abs(y)) < 0.3 * size),
    }
    cells = unit_rows(silhouettes(np.stack(list(inside.values()))[..., None].astype(np.float32)))
    alike = cells @ cells.T + _ALIKE * np.eye(len(cells), dtype=np.float32)
    return dict(zip(inside, unit_rows(np.linalg.solve(alike, cells)), strict=True))
