"""Where the parts of the weight-free descriptor stand in its vector, by name: pictures write them, words read them."""

from __future__ import annotations

from prvr.media.encoders.colours import NAMES

GRID = 4  # cells per side
BINS = 8  # edge directions over half a turn
COLOURS = len(NAMES)
WAYS = ("left", "right", "up", "down")

_SIZES = {
    "layout": GRID * GRID * COLOURS,
    "salient": COLOURS,
    "tone": 3,
    "edges": 5 * BINS,
    "motion": GRID * GRID + 2 + len(WAYS) + COLOURS * len(WAYS),
}


def _slices() -> dict[str, slice]:
    found, start = {}, 0
    for name, size in _SIZES.items():
        found[name] = slice(start, start + size)
        start += size
    return found


PARTS = _slices()
WIDTH = sum(_SIZES.values())
_MOTION = PARTS["motion"].start
STILL, MOVING = _MOTION + GRID * GRID, _MOTION + GRID * GRID + 1


def colour_in_cell(colour: str, row: int, column: int) -> int:
    return PARTS["layout"].start + (row * GRID + column) * COLOURS + NAMES.index(colour)


def salient(colour: str) -> int:
    return PARTS["salient"].start + NAMES.index(colour)


def tone(name: str) -> int:
    return PARTS["tone"].start + ("dark", "middling", "bright").index(name)


def edge(direction: int) -> int:
    """An edge direction of the whole picture."""
    return PARTS["edges"].start + direction % BINS


def change_in_cell(row: int, column: int) -> int:
    return _MOTION + row * GRID + column


def way(name: str, colour: str | None = None) -> int:
    """Motion one way, of any colour or of one."""
    place = WAYS.index(name)
    if colour is None:
        return MOVING + 1 + place
    return MOVING + 1 + len(WAYS) + NAMES.index(colour) * len(WAYS) + place
