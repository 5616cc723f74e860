"""The numbers of a feature world, and four sets of them to start from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from prvr.data import DataError


@dataclass(frozen=True)
class FeatureWorldConfig:
    """The numbers of a world. Strengths and noises are vector lengths in a latent space where a concept has length 1.

    The defaults were chosen so that a small two-tower model lands between chance and saturation with any pooling.
    """

    seed: int = 0
    """The same seed and numbers give the same files."""
    train: int = 800
    """Training videos."""
    val: int = 100
    """Validation videos."""
    test: int = 400
    """Test videos."""
    queries: tuple[int, int] = (1, 4)
    """Fewest and most queries per video (never more than it has events)."""
    events: tuple[int, int] = (3, 5)
    """Fewest and most events per video."""
    frames: tuple[int, int] = (40, 160)
    """Fewest and most frames per video, at two frames per second."""
    visual_width: int = 64
    """Width of frame features."""
    query_width: int = 64
    """Width of word features."""
    latent: int = 48
    """Width of the hidden space in which the world is composed."""
    topics: int = 12
    """Number of topics (places)."""
    actions: int = 20
    """Number of actions."""
    objects: int = 24
    """Number of objects."""
    habit: float = 3.0
    """How evenly a topic uses all actions and objects. A small value gives each topic a few favourites."""
    object_unsaid: float = 0.15
    """Share of queries that leave out the object."""
    topic_unsaid: float = 0.3
    """Share of queries that leave out the topic."""
    topic_strength: float = 1.0
    """How strongly a topic shows in every frame."""
    look: float = 0.5
    """How much a topic changes the look of what happens in it."""
    event_strength: float = 2.0
    """How strongly an event shows in its frames."""
    event_style: float = 0.3
    """How much the look of an event varies from one occurrence to the next."""
    video_style: float = 0.6
    """How much the look of a whole video varies within one topic."""
    frame_noise: float = 0.6
    """Noise per frame."""
    frame_noise_memory: float = 0.8
    """Correlation of that noise from one frame to the next (0: independent)."""
    bend: float = 0.35
    """How nonlinear the random maps are."""
    synonym_distance: float = 0.3
    """Distance between the two words for one thing."""
    context: float = 0.4
    """How much of its sentence a word's state carries."""
    word_noise: float = 0.3
    """Noise per word."""
    unsupported_share: float = 0.3
    """Share of videos with unsupported peaks."""
    peaks: int = 2
    """Most peaks in such a video."""
    peak_frames: tuple[int, int] = (1, 3)
    """Fewest and most frames of a peak."""

    def __post_init__(self) -> None:
        numbers = {"seed": self.seed} | {n: v for n, v in vars(self).items() if isinstance(v, float)}
        least = {"habit": 1e-6}
        wrong = [f"{name} {value}" for name, value in numbers.items() if not least.get(name, 0) <= value < math.inf]
        if wrong:
            raise DataError(
                f"numbers of a world are finite and 0 or more, and habit is above 0; not {', '.join(wrong)}."
            )
        for name in ("queries", "events", "frames", "peak_frames"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise DataError(f"a world needs 1 ≤ fewest ≤ most {name}, not {low} and {high}.")
        counts = ("train", "val", "test", "visual_width", "query_width", "latent", "actions", "objects", "peaks")
        small = [name for name in counts if getattr(self, name) < 1]
        if small or self.topics < 2 or self.frames[0] < 8 or self.actions * self.objects < self.events[1]:
            raise DataError(
                f"the world is too small ({', '.join(small) or 'topics, frames, actions or objects'}): it needs at "
                "least two topics, 8 frames per video, one of everything else, and as many action–object pairs as "
                "events."
            )
        if not 0 <= self.frame_noise_memory < 1 or self.object_unsaid + self.topic_unsaid > 1:
            raise DataError("a world needs 0 ≤ frame_noise_memory < 1, and object_unsaid + topic_unsaid ≤ 1.")


FEATURE_SIZES: dict[str, FeatureWorldConfig] = {
    "tiny": FeatureWorldConfig(
        train=40, val=16, test=16, frames=(16, 48), visual_width=24, query_width=20, topics=6, actions=8, objects=8
    ),
    "demo": FeatureWorldConfig(),
    # The gallery and feature widths of a Charades-like benchmark. Its noise was chosen once, by the base score alone:
    # with less of it a full-size DreamPRVR finds a correct video first 97 times in 100, and nothing is left to compare.
    "full": FeatureWorldConfig(
        train=1536,
        val=300,
        test=1334,
        visual_width=1024,
        query_width=1024,
        topics=24,
        actions=32,
        objects=40,
        event_strength=1.0,
        frame_noise=1.0,
        video_style=1.0,
    ),
}
# The full world with unsupported peaks in nearly every video: what TRACE was made to resist, at its worst.
FEATURE_SIZES["stress"] = replace(FEATURE_SIZES["full"], unsupported_share=0.95)
