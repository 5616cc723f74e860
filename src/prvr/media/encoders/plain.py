"""A frame descriptor without weights: which colours where, which edges, which outline, what moved.

Its parts have names, so simple sentences such as "a red square moving left" can be searched without training
(`plain_words`). It recognises no objects: a car is a patch of colour. It lets everything run and be tested without a
download, and models can be trained on it.

    layout      the share of each colour in each of 4 × 4 cells              16 × 11
    salient     the largest such share, so that small objects count               11
    tone        dark, middle, bright                                               3
    edges       directions of edges, in the whole picture and its quarters     5 × 8
    silhouette  what the most compact patch of colour covers                   6 × 6
    motion      change since the sample before: where, how much, which colour moved which way

Read `describe_frames` first, then the functions it calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prvr.media.encoders import plain_words
from prvr.media.encoders.base import Array, Encoder, Understanding, require_pictures, unit_rows
from prvr.media.encoders.colours import colour_memberships
from prvr.media.encoders.plain_parts import BINS, GRID, PARTS, WIDTH
from prvr.media.encoders.plain_silhouette import silhouettes
from prvr.media.frames import Fit, Image

SIDE = 48  # pixels; pictures are stretched to a square
_MOVED = 0.08  # of the brightness range; less is noise
_LEAST_MASS = 0.004  # share of the picture below which the place of a colour is noise
_FAR = 0.12  # of the picture's side; a colour that moved this far counts fully
_WEIGHTS = {"layout": 1.0, "salient": 1.0, "tone": 0.5, "edges": 0.6, "silhouette": 0.6, "motion": 1.0}


class PlainEncoder(Encoder):
    """The weight-free descriptor with a small vocabulary and hashed word vectors."""

    name = "plain-2"  # increase the number whenever its vectors change
    names = ("plain", name)  # under which it is asked for
    width = WIDTH
    word_width = plain_words.WORD_WIDTH
    fit = Fit(SIDE, SIDE, "stretch")
    preprocessing = "colour names, edges, silhouette, motion"
    batch = 32

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        if not images:
            return np.zeros((0, WIDTH), np.float32)
        known = [before] if before is not None else []
        return describe_frames(np.asarray(require_pictures([*known, *images], self.fit), np.uint8))[len(known) :]

    def encode_texts(self, texts: Sequence[str]) -> Array:
        if not texts:
            return np.zeros((0, WIDTH), np.float32)
        return np.stack([plain_words.sentence_prototype(text) for text in texts])

    def encode_words(self, text: str) -> Array:
        return plain_words.word_vectors(text)

    def understanding(self, text: str) -> Understanding:
        return plain_words.understood_words(text)

    def variations(self, text: str) -> tuple[str, ...]:
        return plain_words.variations(text)


def describe_frames(images: NDArray[np.uint8]) -> Array:
    """Consecutive samples (N, SIDE, SIDE, 3) → unit vectors (N, WIDTH). The first has no motion."""
    count = len(images)
    colours = colour_memberships(images).reshape(count, SIDE, SIDE, -1)
    cells = _cells(colours)  # (N, 16, 11) shares
    planes = np.ascontiguousarray(images.transpose(3, 0, 1, 2), np.float32) / np.float32(255)  # (3, N, SIDE, SIDE)
    light = np.float32(0.299) * planes[0] + np.float32(0.587) * planes[1] + np.float32(0.114) * planes[2]
    parts = {
        "layout": np.sqrt(cells).reshape(count, -1),
        "salient": np.sqrt(cells.max(1)),
        "tone": _tone(light),
        "edges": _edges(light),
        "silhouette": silhouettes(colours),
        "motion": _motion(planes, _directions(cells.mean(1), _places(colours))),
    }
    vectors = np.empty((count, WIDTH), np.float32)
    for name, values in parts.items():
        # Motion keeps its length, so that no motion differs from some motion. Other parts are scaled to unit length.
        vectors[:, PARTS[name]] = _WEIGHTS[name] * (values if name == "motion" else unit_rows(values))
    return unit_rows(vectors)


def _cells(values: Array) -> Array:
    """Means of the cells of a picture, (N, SIDE, SIDE, …) → (N, 16, …).

    Sums instead of a matrix product: after a product, its threads keep spinning on cores that the decoder needs.
    """
    step, rest = SIDE // GRID, values.shape[3:]
    rows = np.add.reduceat(values, np.arange(0, SIDE, step), axis=1)
    sums = np.add.reduceat(rows, np.arange(0, SIDE, step), axis=2)
    return (sums / (step * step)).astype(np.float32).reshape(len(values), GRID * GRID, *rest)


def _places(colours: Array) -> Array:
    """Mean over pixels of each colour's share times x, and times y (0 to 1): (N, SIDE, SIDE, 11) → (N, 2, 11)."""
    place = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None] / np.float32(SIDE**2)
    return np.stack([(colours.sum(1) * place).sum(1), (colours.sum(2) * place).sum(1)], 1)


def _tone(light: Array) -> Array:
    """How much of a picture is dark, middle, bright: (N, 3)."""
    dark = np.clip(1 - light / 0.4, 0, 1).mean((1, 2))
    bright = np.clip((light - 0.6) / 0.4, 0, 1).mean((1, 2))
    return np.stack([dark, 1 - dark - bright, bright], -1)


def _edges(light: Array) -> Array:
    """Histograms of edge directions, of the picture and its quarters, (N, 5 · BINS). An upright edge is bin 0."""
    across = np.zeros_like(light)
    down = np.zeros_like(light)
    across[:, :, 1:-1] = light[:, :, 2:] - light[:, :, :-2]
    down[:, 1:-1] = light[:, 2:] - light[:, :-2]
    strength = np.hypot(across, down)
    place = np.arctan2(down, across) * np.float32(BINS / np.pi) + BINS  # opposite directions count as one
    first = place.astype(np.int32)
    share = place - first
    count, late = len(light), np.arange(SIDE) >= SIDE // 2
    slot = (np.arange(count)[:, None, None] * 4 + late[:, None] * 2 + late[None]) * BINS
    size = count * 4 * BINS
    histogram = np.bincount((slot + first % BINS).ravel(), (strength * (1 - share)).ravel(), size)
    histogram += np.bincount((slot + (first + 1) % BINS).ravel(), (strength * share).ravel(), size)
    quarters = histogram.reshape(count, 4, BINS).astype(np.float32)
    return np.sqrt(np.concatenate([quarters.sum(1, keepdims=True), quarters], 1)).reshape(count, -1)


def _motion(planes: Array, directions: Array) -> Array:
    """Where something changed (16), still and moving (2), directions (4), directions of each colour (11 · 4)."""
    count = planes.shape[1]
    changed = np.zeros((count, SIDE, SIDE), np.float32)
    changed[1:] = np.abs(planes[:, 1:] - planes[:, :-1]).max(0) > _MOVED
    shares = _cells(changed)  # (N, 16)
    amount = np.minimum(1.0, 5 * shares.mean(1))
    known = np.arange(count) > 0  # the first sample has nothing to compare with
    energy = np.stack([known * (1 - amount), amount], 1)
    return np.concatenate(
        [0.5 * unit_rows(np.sqrt(shares)), energy, directions.max(1), directions.reshape(count, -1)], 1
    )


def _directions(mass: Array, sums: Array) -> Array:
    """How far the centre of each colour moved left, right, up, down since the sample before, 0 to 1.

    (N, 11) shares of the picture, (N, 2, 11) sums of x and y → (N, 11, 4).
    """
    middle = sums / np.maximum(mass, 1e-6)[:, None]  # (N, 2, 11)
    shift = np.zeros_like(middle)
    shift[1:] = (middle[1:] - middle[:-1]) / _FAR
    there = np.zeros_like(mass)
    now, before = np.maximum(mass[1:], 1e-6), np.maximum(mass[:-1], 1e-6)
    there[1:] = np.clip(np.minimum(now, before) / _LEAST_MASS - 1, 0, 1)
    # A colour that grew or shrank a lot did not move: something appeared or disappeared.
    there[1:] *= np.clip(2 - 2 * np.abs(np.log(now / before)), 0, 1)
    signed = np.stack([-shift[:, 0], shift[:, 0], -shift[:, 1], shift[:, 1]], -1)  # (N, 11, 4)
    return (np.clip(signed, 0, 1) * there[..., None]).astype(np.float32)
