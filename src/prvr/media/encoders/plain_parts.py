"""Where each part of the descriptor is in its vector. `plain` fills them from pictures, `plain_words` from text."""

from __future__ import annotations

from prvr.media.encoders.colours import COLOUR_NAMES
from prvr.media.encoders.plain_silhouette import CELLS

GRID = 4  # cells per side
BINS = 8  # edge directions in half a turn
COLOUR_COUNT = len(COLOUR_NAMES)
DIRECTIONS = ("left", "right", "up", "down")

_SIZES = {
    "layout": GRID * GRID * COLOUR_COUNT,
    "salient": COLOUR_COUNT,
    "tone": 3,
    "edges": 5 * BINS,
    "silhouette": CELLS * CELLS,
    "motion": GRID * GRID + 2 + len(DIRECTIONS) + COLOUR_COUNT * len(DIRECTIONS),
}


def _slices() -> dict[str, slice]:
    slices, start = {}, 0
    for name, size in _SIZES.items():
        slices[name] = slice(start, start + size)
        start += size
    return slices


PARTS = _slices()
WIDTH = sum(_SIZES.values())
_MOTION = PARTS["motion"].start
STILL, MOVING = _MOTION + GRID * GRID, _MOTION + GRID * GRID + 1


def cell_colour_index(colour: str, row: int, column: int) -> int:
    """The share of a colour in a cell."""
    return PARTS["layout"].start + (row * GRID + column) * COLOUR_COUNT + COLOUR_NAMES.index(colour)


def salient_index(colour: str) -> int:
    """The largest share of a colour in any cell."""
    return PARTS["salient"].start + COLOUR_NAMES.index(colour)


def tone_index(name: str) -> int:
    """How much of the picture is dark, middle or bright."""
    return PARTS["tone"].start + ("dark", "middle", "bright").index(name)


def edge_index(angle: int) -> int:
    """Edges at an angle, in eighths of half a turn, in the whole picture."""
    return PARTS["edges"].start + angle % BINS


def cell_change_index(row: int, column: int) -> int:
    """How much changed in a cell."""
    return _MOTION + row * GRID + column


def direction_index(name: str, colour: str | None = None) -> int:
    """Motion in one direction, of any colour or of one."""
    place = DIRECTIONS.index(name)
    if colour is None:
        return MOVING + 1 + place
    return MOVING + 1 + len(DIRECTIONS) + COLOUR_NAMES.index(colour) * len(DIRECTIONS) + place
