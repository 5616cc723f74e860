"""The numbers of a rendered world, and two sets of them to start from."""

from __future__ import annotations

from dataclasses import dataclass

from prvr.data import DataError


@dataclass(frozen=True)
class RenderConfig:
    """The numbers of a rendered world."""

    seed: int = 0
    """same seed and numbers, same films"""
    train: int = 240
    """films to train on"""
    val: int = 40
    """films to choose by"""
    test: int = 80
    """films to report on"""
    events: tuple[int, int] = (3, 5)
    """fewest and most events per film"""
    queries: tuple[int, int] = (2, 4)
    """fewest and most sentences per film (never more than it has events)"""
    seconds: tuple[float, float] = (16.0, 30.0)
    """shortest and longest film"""
    width: int = 160
    """pixels"""
    height: int = 120
    """pixels"""
    fps: float = 10.0
    """frames per second"""
    motion_unsaid: float = 0.2
    """share of sentences that do not say how a thing moves"""
    scene_unsaid: float = 0.3
    """share of sentences that do not say where"""
    peak_share: float = 0.35
    """share of films with an unsupported peak"""
    peak_seconds: tuple[float, float] = (0.6, 1.2)
    """shortest and longest peak"""

    def __post_init__(self) -> None:
        for name in ("events", "queries", "seconds", "peak_seconds"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise DataError(f"a rendered world needs 0 < fewest ≤ most {name}, not {low} and {high}.")
        if min(self.train, self.val, self.test) < 1 or min(self.width, self.height) < 32 or self.fps <= 0:
            raise DataError("a rendered world needs films in every split, 32 × 32 pixels or more and a frame rate.")
        if self.motion_unsaid + self.scene_unsaid > 1 or self.seconds[0] < 1.5 * self.events[1]:
            raise DataError("films need 1.5 seconds per event, and motion_unsaid + scene_unsaid ≤ 1.")


RENDERED_SIZES: dict[str, RenderConfig] = {
    "tiny": RenderConfig(
        train=8, val=3, test=5, events=(2, 3), queries=(1, 2), seconds=(6.0, 9.0), width=96, height=72, fps=8
    ),
    "demo": RenderConfig(train=720, fps=8),
}
