"""From a script to frame features: damage, composition, a fixed random map, noise.

Every function is pure: its result follows from its arguments and their random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prvr.media import unit_rows
from prvr.worlds.proxies.config import NOISE_LEVELS, ProxyConfig
from prvr.worlds.proxies.source import Label, LabelScript, clamp_span

Array = NDArray[np.float32]
Vectors = Mapping[str, Array]  # a text's embedding, (D,) of unit length
Near = Callable[[str], Sequence[str]]  # labels most like a given one, itself excluded


def damage_labels(script: LabelScript, near: Near, config: ProxyConfig, rng: np.random.Generator) -> LabelScript:
    """A script as a careless annotator would write it: labels missing, mistaken, and with shifted boundaries."""
    labels: list[Label] = []
    for label in script.events:
        fate, which = rng.random(), rng.random()
        shifts = rng.standard_normal(2)  # drawn for every label, so that dropping one does not change the others
        if fate < config.dropped:
            continue
        text = label.text
        if fate < config.dropped + config.replaced:
            others = near(text)
            text = others[int(which * len(others))] if others else text
        sigma = max(config.least_jitter, config.jitter * (label.end - label.start))
        start, end = label.start + sigma * shifts[0], label.end + sigma * shifts[1]
        labels.append(Label(*clamp_span(start, end, script.length), text))
    return replace(script, events=tuple(labels))


def frame_times(seconds: float, rate: float) -> NDArray[np.float64]:
    """The middles of the frames, (n,), at least one.

    >>> frame_times(1.6, 2.0)
    array([0.25, 0.75, 1.25])
    """
    return np.asarray((np.arange(max(1, round(seconds * rate))) + 0.5) / rate, dtype=np.float64)


def compose_frames(
    script: LabelScript, vectors: Vectors, config: ProxyConfig, width: int
) -> tuple[Array, NDArray[np.intp]]:
    """What frames show: distinct states (k, D) of unit length, and which of them each frame shows, (n,).

    A state is the mean of the labels active at a time, plus scene and objects; zero where nothing is known.
    """
    times = frame_times(script.length, config.rate)
    starts, ends = (np.array([getattr(label, side) for label in script.events]) for side in ("start", "end"))
    active = (starts[:, None] <= times) & (times < ends[:, None])  # (L, n)
    patterns, shown = np.unique(active.T, axis=0, return_inverse=True)  # frames between two boundaries are all alike
    weights = patterns.astype(np.float32)
    labels = _stacked([label.text for label in script.events], vectors, width)
    happening = weights @ labels / np.maximum(weights.sum(1, keepdims=True), 1)
    setting = _stacked(script.setting, vectors, width)
    states = happening + config.context_weight * setting.sum(0) / max(len(setting), 1)
    return unit_rows(states.astype(np.float32)), shown.reshape(-1)


@dataclass(frozen=True)
class FixedMap:
    """x → tanh(x A) B, shifted and scaled: each dimension of a clean training frame has mean 0 and deviation 1."""

    inner: Array  # (D, H)
    outer: Array  # (H, W)
    mean: Array  # (W,)
    scale: Array  # (W,)

    @staticmethod
    def draw(width: int, config: ProxyConfig) -> FixedMap:
        rng = np.random.default_rng((config.seed, 1))
        inner = config.gain * rng.standard_normal((width, config.hidden))
        outer = rng.standard_normal((config.hidden, config.width)) / np.sqrt(config.hidden)
        neutral = np.zeros(config.width), np.ones(config.width)
        return FixedMap(*(part.astype(np.float32) for part in (inner, outer, *neutral)))

    def __call__(self, states: Array) -> Array:
        """(k, D) → (k, W)."""
        mapped: Array = (np.tanh(states @ self.inner) @ self.outer - self.mean) / self.scale
        return mapped

    def standardised(self, states: Array, counts: NDArray[np.int64]) -> FixedMap:
        """The same map, centred and scaled on states (k, D); ``counts`` (k,) says how many frames show each."""
        rows, share = self(states).astype(np.float64), counts / counts.sum()
        mean = share @ rows
        spread = np.sqrt(share @ (rows - mean) ** 2)
        return replace(self, mean=mean.astype(np.float32), scale=np.maximum(spread, 1e-6).astype(np.float32))


def add_noise(clean: Array, config: ProxyConfig, rng: np.random.Generator) -> Array:
    """Frames (n, W) with noise of their video and of their own. All levels and shapes use the same random draws."""
    of_frame, of_video = NOISE_LEVELS[config.noise]
    style, drawn = rng.standard_normal(clean.shape[1]), rng.standard_normal(clean.shape)
    if config.shape == "correlated":
        keep, new = config.memory, np.sqrt(1 - config.memory**2)
        for row in range(1, len(drawn)):  # stationary: every frame's noise has deviation 1
            drawn[row] = keep * drawn[row - 1] + new * drawn[row]
    return (clean + of_video * style + of_frame * drawn).astype(np.float32)


def _stacked(texts: Sequence[str], vectors: Vectors, width: int) -> Array:
    return np.stack([vectors[text] for text in texts]) if texts else np.zeros((0, width), np.float32)
