"""Scenes of films: textured backgrounds, a little different in each film."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Canvas = NDArray[np.float32]  # (H, W, 3), 0 to 255
_Rng = np.random.Generator


def background(name: str, width: int, height: int, rng: _Rng) -> Canvas:
    """Draw a scene: the same kind each time, with different details."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    tint = rng.normal(0, 8, 3).astype(np.float32)
    return np.clip(_DRAWN[name](x / width, y / height, rng) + tint, 0, 255).astype(np.float32)


def _grain(rng: _Rng, shape: tuple[int, ...], size: float) -> Canvas:
    return rng.normal(0, size, (*shape, 1)).astype(np.float32)


def _mixed(share: Canvas, first: tuple[int, int, int], second: tuple[int, int, int]) -> Canvas:
    """Two colours, mixed pixel by pixel."""
    return share[..., None] * np.array(first, np.float32) + (1 - share[..., None]) * np.array(second, np.float32)


def _meadow(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    hills = 0.35 + 0.06 * np.sin(2 * np.pi * (x * rng.uniform(1, 3) + rng.random()))
    sky = (y < hills).astype(np.float32)
    return _mixed(sky, (150, 200, 235), (70, 150, 60)) + _grain(rng, x.shape, 12)


def _sea(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    waves = 0.5 + 0.5 * np.sin(2 * np.pi * (y * rng.uniform(8, 14) + 0.4 * np.sin(2 * np.pi * 2 * x)))
    return _mixed(waves.astype(np.float32), (40, 95, 190), (25, 70, 150)) + _grain(rng, x.shape, 6)


def _desert(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    dunes = 0.5 + 0.5 * np.sin(2 * np.pi * (y * rng.uniform(2, 4) + 0.5 * np.sin(2 * np.pi * (x + rng.random()))))
    return _mixed(dunes.astype(np.float32), (232, 205, 130), (205, 170, 100)) + _grain(rng, x.shape, 9)


def _night(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    sky = _mixed(y, (28, 28, 45), (8, 8, 20)) + _grain(rng, x.shape, 3)
    sky[rng.random(x.shape) < 0.004] = 230
    return sky


def _snow(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    drifts = 0.5 + 0.5 * np.sin(2 * np.pi * (x * rng.uniform(1, 2) + y * rng.uniform(0.5, 1)))
    return _mixed(drifts.astype(np.float32), (245, 246, 250), (215, 222, 232)) + _grain(rng, x.shape, 5)


def _bricks(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    rows = rng.integers(7, 11)
    row = np.floor(y * rows)
    mortar = (y * rows % 1 < 0.14) | ((x * rows * 0.6 + 0.5 * (row % 2)) % 1 < 0.08)
    return _mixed(mortar.astype(np.float32), (190, 180, 170), (150, 75, 55)) + _grain(rng, x.shape, 9)


def _road(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    line = (np.abs(y - 0.55) < 0.02) & (x * rng.uniform(5, 8) % 1 < 0.5)
    return _mixed(line.astype(np.float32), (225, 225, 215), (98, 98, 102)) + _grain(rng, x.shape, 14)


def _sunset(x: Canvas, y: Canvas, rng: _Rng) -> Canvas:
    return _mixed(np.clip(y * rng.uniform(0.9, 1.3), 0, 1), (245, 150, 60), (120, 70, 140)) + _grain(rng, x.shape, 4)


_DRAWN: dict[str, Callable[[Canvas, Canvas, _Rng], Canvas]] = {
    "meadow": _meadow,
    "sea": _sea,
    "desert": _desert,
    "night": _night,
    "snow": _snow,
    "bricks": _bricks,
    "road": _road,
    "sunset": _sunset,
}
SCENES = tuple(_DRAWN)
