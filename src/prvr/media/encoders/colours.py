"""How much an RGB value is of each of the eleven basic colour words, from a look-up table."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

# Clear examples of each colour, in sRGB. Chosen by eye; a colour may have several.
EXAMPLES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "black": ((10, 10, 10),),
    "white": ((245, 245, 245),),
    "grey": ((128, 128, 128), (85, 85, 85), (175, 175, 175)),
    "red": ((215, 30, 35), (150, 20, 25)),
    "orange": ((245, 140, 25),),
    "yellow": ((245, 225, 50), (215, 195, 100)),
    "green": ((40, 170, 60), (20, 95, 35), (130, 205, 110)),
    "blue": ((35, 80, 215), (20, 35, 110), (110, 175, 235)),
    "purple": ((130, 45, 165), (85, 30, 110)),
    "pink": ((245, 135, 180), (235, 60, 150)),
    "brown": ((115, 70, 35), (165, 115, 70)),
}
COLOUR_NAMES = tuple(EXAMPLES)
_BITS = 5  # of each channel that the table distinguishes
_SPREAD = 13.0  # of a colour, in CIELAB units; values between two colours belong partly to both


@cache
def _table() -> NDArray[np.float32]:
    """The look-up table, (32 · 32 · 32, 11): rows add up to one. A constant, computed on first use."""
    levels = (np.arange(1 << _BITS) + 0.5) * (256 >> _BITS)
    rgb = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)
    lab = _lab(rgb)
    nearest = []
    for examples in EXAMPLES.values():
        distances = np.stack([np.linalg.norm(lab - _lab(np.array([example], float)), axis=1) for example in examples])
        nearest.append(distances.min(0))
    closeness = -0.5 * (np.stack(nearest, 1) / _SPREAD) ** 2
    closeness -= closeness.max(1, keepdims=True)
    shares = np.exp(closeness)
    table = (shares / shares.sum(1, keepdims=True)).astype(np.float32)
    table.setflags(write=False)
    return table


def colour_memberships(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How much each pixel is of each colour: (…, 3) RGB → (…, 11).

    >>> pixels = np.array([[220, 30, 30], [20, 20, 20]], np.uint8)
    >>> [COLOUR_NAMES[i] for i in colour_memberships(pixels).argmax(-1)]
    ['red', 'black']
    """
    coarse = (images >> (8 - _BITS)).astype(np.int32)
    return _table()[(coarse[..., 0] << 2 * _BITS) | (coarse[..., 1] << _BITS) | coarse[..., 2]]


def _lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """sRGB (0–255) to CIELAB, white point D65."""
    c = rgb / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = linear @ to_xyz.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)
