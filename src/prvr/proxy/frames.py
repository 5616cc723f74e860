"""From a story to frame features: damage, composition, a fixed random map, noise. Pure functions of their generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prvr.media.encoders.base import unit_rows
from prvr.proxy.config import NOISE, ProxyConfig
from prvr.proxy.stories import Label, Story, within

Array = NDArray[np.float32]
Vectors = Mapping[str, Array]  # a text's embedding, (D,) of unit length
Near = Callable[[str], Sequence[str]]  # labels most like a given one, itself excluded


def damaged(story: Story, near: Near, config: ProxyConfig, rng: np.random.Generator) -> Story:
    """A story as a careless annotator tells it: labels missing, mistaken, and with shifted boundaries."""
    labels: list[Label] = []
    for label in story.labels:
        fate, which = rng.random(), rng.random()
        shifts = rng.standard_normal(2)  # drawn for every label, so that one's fate does not change another's
        if fate < config.dropped:
            continue
        text = label.text
        if fate < config.dropped + config.replaced:
            others = near(text)
            text = others[int(which * len(others))] if others else text
        sigma = max(config.least_jitter, config.jitter * (label.end - label.start))
        start, end = label.start + sigma * shifts[0], label.end + sigma * shifts[1]
        labels.append(Label(text, *within(start, end, story.seconds)))
    return replace(story, labels=tuple(labels))


def frame_times(seconds: float, rate: float) -> NDArray[np.float64]:
    """The middles of the frames, (n,), at least one.

    >>> frame_times(1.6, 2.0)
    array([0.25, 0.75, 1.25])
    """
    return np.asarray((np.arange(max(1, round(seconds * rate))) + 0.5) / rate, dtype=np.float64)


def composed(story: Story, vectors: Vectors, config: ProxyConfig, width: int) -> tuple[Array, NDArray[np.intp]]:
    """What is seen: distinct moments (k, D) of unit length, and which of them each frame shows, (n,).

    The mean of the labels active at a time, plus scene and objects; zero where nothing is known.
    """
    times = frame_times(story.seconds, config.rate)
    starts, ends = (np.array([getattr(label, side) for label in story.labels]) for side in ("start", "end"))
    active = (starts[:, None] <= times) & (times < ends[:, None])  # (L, n)
    patterns, shown = np.unique(active.T, axis=0, return_inverse=True)  # frames between two boundaries are all alike
    here = patterns.astype(np.float32)
    said = _stacked([label.text for label in story.labels], vectors, width)
    happening = here @ said / np.maximum(here.sum(1, keepdims=True), 1)
    around = _stacked(story.context, vectors, width)
    seen = happening + config.context_weight * around.sum(0) / max(len(around), 1)
    return unit_rows(seen.astype(np.float32)), shown.reshape(-1)


@dataclass(frozen=True)
class FixedMap:
    """x → tanh(x A) B, shifted and scaled: each dimension of a clean training frame has mean 0 and deviation 1."""

    inner: Array  # (D, H)
    outer: Array  # (H, W)
    mean: Array  # (W,)
    scale: Array  # (W,)

    @staticmethod
    def drawn(width: int, config: ProxyConfig) -> FixedMap:
        rng = np.random.default_rng((config.seed, 1))
        inner = config.gain * rng.standard_normal((width, config.hidden))
        outer = rng.standard_normal((config.hidden, config.width)) / np.sqrt(config.hidden)
        neutral = np.zeros(config.width), np.ones(config.width)
        return FixedMap(*(part.astype(np.float32) for part in (inner, outer, *neutral)))

    def __call__(self, seen: Array) -> Array:
        """(k, D) → (k, W)."""
        moved: Array = (np.tanh(seen @ self.inner) @ self.outer - self.mean) / self.scale
        return moved

    def standardised(self, seen: Array, counts: NDArray[np.int64]) -> FixedMap:
        """The same map, centred and scaled on moments (k, D) that are shown so many times, (k,)."""
        rows, share = self(seen).astype(np.float64), counts / counts.sum()
        mean = share @ rows
        spread = np.sqrt(share @ (rows - mean) ** 2)
        return replace(self, mean=mean.astype(np.float32), scale=np.maximum(spread, 1e-6).astype(np.float32))


def noisy(clean: Array, config: ProxyConfig, rng: np.random.Generator) -> Array:
    """Frames (n, W) with noise of their video and of their own. Levels and shapes share what is drawn."""
    of_frame, of_video = NOISE[config.noise]
    style, drawn = rng.standard_normal(clean.shape[1]), rng.standard_normal(clean.shape)
    if config.shape == "correlated":
        keep, new = config.memory, np.sqrt(1 - config.memory**2)
        for row in range(1, len(drawn)):  # stationary: every frame's noise has deviation 1
            drawn[row] = keep * drawn[row - 1] + new * drawn[row]
    return (clean + of_video * style + of_frame * drawn).astype(np.float32)


def _stacked(texts: Sequence[str], vectors: Vectors, width: int) -> Array:
    return np.stack([vectors[text] for text in texts]) if texts else np.zeros((0, width), np.float32)
