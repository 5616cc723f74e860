"""The numbers of a proxy: noise, damage, controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prvr.data import DataError

NoiseLevel = Literal["lo", "mid", "hi"]
NoiseShape = Literal["correlated", "independent"]
Control = Literal["none", "shuffled-pairs", "shuffled-frames"]

# Standard deviation per dimension of (frame noise, video noise); a clean feature's is 1.
NOISE_LEVELS: dict[str, tuple[float, float]] = {"lo": (0.5, 0.3), "mid": (1.5, 0.7), "hi": (3.0, 1.5)}


@dataclass(frozen=True)
class ProxyConfig:
    """How annotations become frames."""

    noise: NoiseLevel = "mid"
    """size of the noise per dimension, frame/video, where a clean feature's is 1: lo .5/.3, mid 1.5/.7, hi 3/1.5"""
    shape: NoiseShape = "correlated"
    """frame noise: correlated in time (pooling frames cannot remove it), or independent from frame to frame (it can).
    The shape decides which methods win: report both"""
    control: Control = "none"
    """shuffled-pairs: training and validation sentences get other videos' frames, so that a sound evaluation falls to
    chance; shuffled-frames: the frames of each video in random order, so that what needs their order is lost"""
    seed: int = 0
    """of the map, the damage, the noise and the controls; which videos are in which split never changes"""
    rate: float = 2.0
    """frames per second"""
    hidden: int = 512
    """inner width of the random map from sentence space to frame space"""
    width: int = 256
    """width of a frame feature"""
    gain: float = 2.0
    """how hard the map's tanh is driven: standard deviation of what enters it"""
    dropped: float = 0.1
    """share of timed labels that are left out"""
    replaced: float = 0.1
    """share of timed labels that a near one replaces"""
    near: int = 5
    """among how many nearest labels the replacement is drawn"""
    jitter: float = 0.1
    """standard deviation of a boundary's shift, as a share of its label's length"""
    least_jitter: float = 0.5
    """least standard deviation of that shift, in seconds"""
    context_weight: float = 0.5
    """weight of scene and objects relative to the labels active at a time"""
    memory: float = 0.9
    """correlation of correlated noise from one frame to the next"""

    def __post_init__(self) -> None:
        if min(self.hidden, self.width, self.near) < 1 or self.rate <= 0 or self.seed < 0:
            raise DataError(
                "a proxy needs hidden, width and near of at least 1, a rate above 0 and a seed of 0 or more."
            )
        if min(self.dropped, self.replaced) < 0 or self.dropped + self.replaced > 1 or not 0 <= self.memory < 1:
            raise DataError("a proxy needs dropped + replaced ≤ 1 (neither negative) and 0 ≤ memory < 1.")
        if min(self.gain, self.jitter, self.least_jitter, self.context_weight) < 0:
            raise DataError("a proxy's gain, jitter, least_jitter and context_weight cannot be negative.")
