"""What appears in front of a scene: plain shapes, their colours, and how they move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prvr.worlds.rendered.scenes import Canvas

SHAPE_COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 30, 35),
    "orange": (245, 140, 25),
    "yellow": (245, 228, 50),
    "green": (30, 165, 60),
    "blue": (30, 75, 225),
    "purple": (130, 45, 165),
    "pink": (245, 120, 175),
    "white": (250, 250, 250),
    "black": (12, 12, 12),
}
SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross")
MOTIONS = ("left", "right", "up", "down", "still", "grow")
_EDGE = 0.012  # of the picture's height over which an outline fades: no stair steps


def shape_mask(shape: str, x: Canvas, y: Canvas, size: float) -> Canvas:
    """How much of each pixel a shape covers; ``x``, ``y`` from its middle, in heights of the picture."""
    if shape == "circle":
        inside = size - np.hypot(x, y)
    elif shape == "square":
        inside = 0.88 * size - np.maximum(np.abs(x), np.abs(y))
    elif shape == "triangle":
        inside = np.minimum(0.6 * size - y, (y + size) * 0.5 - np.abs(x) * 0.87)
    elif shape == "diamond":
        inside = 0.75 * (1.2 * size - (np.abs(x) + np.abs(y)))
    elif shape == "ring":
        inside = 0.25 * size - np.abs(np.hypot(x, y) - 0.75 * size)
    elif shape == "cross":
        inside = np.maximum(
            np.minimum(0.3 * size - np.abs(x), size - np.abs(y)), np.minimum(0.3 * size - np.abs(y), size - np.abs(x))
        )
    else:
        raise ValueError(f"unknown shape {shape!r}; there are {', '.join(SHAPES)}")
    return np.clip(inside / _EDGE + 0.5, 0, 1).astype(np.float32)


def shape_position(motion: str, share: float, across: float, down: float) -> tuple[float, float, float]:
    """Middle (x, y as shares of the picture) and relative size of a shape after ``share`` of its time.

    >>> shape_position("right", 0.0, 0.5, 0.3)[0] < shape_position("right", 1.0, 0.5, 0.3)[0]
    True
    """
    path = 0.15 + 0.7 * share
    if motion in ("left", "right"):
        return (path if motion == "right" else 1 - path), down, 1.0
    if motion in ("up", "down"):
        return across, (path if motion == "down" else 1 - path), 1.0
    return across, down, (0.6 + 1.2 * share if motion == "grow" else 1.0)


def paint_shape(canvas: Canvas, shape: str, colour: str, x: float, y: float, size: float) -> Canvas:
    """Draw a shape on the canvas; its middle as shares of the picture, its size in heights of the picture."""
    height, width = canvas.shape[:2]
    reach = int(1.3 * size * height) + 2
    top, left = max(0, int(y * height) - reach), max(0, int(x * width) - reach)
    bottom, right = min(height, int(y * height) + reach), min(width, int(x * width) + reach)
    if top >= bottom or left >= right:
        return canvas
    rows = (np.arange(top, bottom, dtype=np.float32) + 0.5) / height - y
    columns = (np.arange(left, right, dtype=np.float32) + 0.5 - x * width) / height
    cover = shape_mask(shape, columns[None], rows[:, None], size)[..., None]
    part = canvas[top:bottom, left:right]
    canvas[top:bottom, left:right] = part + cover * (np.array(SHAPE_COLOURS[colour], np.float32) - part)
    return canvas


def as_picture(canvas: Canvas) -> NDArray[np.uint8]:
    return np.clip(canvas, 0, 255).astype(np.uint8)
