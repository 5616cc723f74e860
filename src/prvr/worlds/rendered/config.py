"""The numbers of a rendered world, and two sets of them to start from."""

from __future__ import annotations

from dataclasses import dataclass

from prvr.data import DataError


@dataclass(frozen=True)
class RenderConfig:
    """The numbers of a rendered world."""

    seed: int = 0
    """The same seed and numbers give the same films."""
    train: int = 240
    """Training films."""
    val: int = 40
    """Validation films."""
    test: int = 80
    """Test films."""
    events: tuple[int, int] = (3, 5)
    """Fewest and most events per film."""
    queries: tuple[int, int] = (2, 4)
    """Fewest and most queries per film (never more than it has events)."""
    seconds: tuple[float, float] = (16.0, 30.0)
    """Shortest and longest film, in seconds."""
    width: int = 160
    """Pixels."""
    height: int = 120
    """Pixels."""
    fps: float = 10.0
    """Frames per second."""
    motion_unsaid: float = 0.2
    """Share of queries that do not say how a shape moves."""
    scene_unsaid: float = 0.3
    """Share of queries that do not name the scene."""
    peak_share: float = 0.35
    """Share of films with an unsupported peak."""
    peak_seconds: tuple[float, float] = (0.6, 1.2)
    """Shortest and longest peak, in seconds."""

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
    "demo": RenderConfig(train=760, val=80, seconds=(12.0, 20.0), width=128, height=96, fps=8),
}
