"""What happens in each film and how a sentence describes it: plain facts, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from prvr.worlds.rendered.config import RenderConfig
from prvr.worlds.rendered.scenes import SCENES
from prvr.worlds.rendered.shapes import MOTIONS, SHAPE_COLOURS, SHAPES
from prvr.worlds.script import Event, Peak, Query, Script

APPEARANCE_ATTRIBUTES = ("colour", "shape", "motion", "scene")  # of an appearance, as a sentence can state them

# The main colour of a scene: a shape of that colour would be invisible there.
_CAMOUFLAGE = {"meadow": "green", "sea": "blue", "desert": "yellow", "night": "black", "snow": "white",
               "bricks": "red", "road": "black", "sunset": "orange"}  # fmt: skip

# Several ways to say the same; each sentence uses one of them.
_SHAPE_WORDS = {"circle": ("circle", "disc", "ball"), "square": ("square", "box"), "triangle": ("triangle",),
                "diamond": ("diamond",), "ring": ("ring", "hoop"), "cross": ("cross", "plus")}  # fmt: skip
_MOTION_WORDS = {
    "left": ("moves to the left", "slides left", "drifts leftwards"),
    "right": ("moves to the right", "slides right", "drifts rightwards"),
    "up": ("moves up", "rises", "climbs upwards"),
    "down": ("moves down", "sinks", "falls"),
    "still": ("stands still", "stays in one place", "rests motionless"),
    "grow": ("grows", "gets bigger", "swells"),
}
_SCENE_WORDS = {
    "meadow": ("over a green meadow", "above the grass"),
    "sea": ("over the blue sea", "on the water"),
    "desert": ("over desert sand", "in the yellow desert"),
    "night": ("at night", "in the dark night sky"),
    "snow": ("in the white snow", "over snow"),
    "bricks": ("in front of red bricks", "before a brick wall"),
    "road": ("on a grey road", "over asphalt"),
    "sunset": ("at sunset", "before an orange evening sky"),
}
_OPENINGS = ("a", "a", "the", "then a", "suddenly a", "we see a")


@dataclass(frozen=True)
class Appearance(Event):
    """A coloured shape appears in a scene and moves, from ``start`` to ``end`` (seconds)."""

    scene: str
    shape: str
    colour: str
    motion: str
    across: float = 0.5  # where it is or moves along, as shares of the picture
    down: float = 0.5
    size: float = 0.16  # in heights of the picture


FilmScript: TypeAlias = Script[Appearance, str]  # the setting is the scene
FilmQuery: TypeAlias = Query[Appearance]


def draw_film_scripts(config: RenderConfig, split: str, count: int, rng: np.random.Generator) -> list[FilmScript]:
    """Draw the films of a split: one scene each, and shapes that appear in it one after the other."""
    scripts = []
    for number in range(count):
        scene = str(rng.choice(SCENES))
        events = int(rng.integers(config.events[0], config.events[1] + 1))
        seconds = float(np.round(rng.uniform(*config.seconds), 2))
        visible = [colour for colour in SHAPE_COLOURS if colour != _CAMOUFLAGE[scene]]
        looks: dict[tuple[str, str], None] = {}
        while len(looks) < events:  # no shape of one colour twice in a film
            looks[str(rng.choice(visible)), str(rng.choice(SHAPES))] = None
        part = seconds / events
        appearances = [
            _draw_appearance(scene, colour, shape, order * part, part, rng)
            for order, (colour, shape) in enumerate(looks)
        ]
        scripts.append(Script(f"{split}{number:04d}", scene, seconds, tuple(appearances)))
    return scripts


def _draw_appearance(
    scene: str, colour: str, shape: str, earliest: float, part: float, rng: np.random.Generator
) -> Appearance:
    """A shape that appears within the ``part`` seconds from ``earliest`` on."""
    length = part * rng.uniform(0.45, 0.8)
    start = earliest + rng.uniform(0.05, 0.95) * (part - length)
    span = round(float(start), 2), round(float(start + length), 2)
    across, down, size = (round(float(x), 3) for x in rng.uniform((0.25, 0.25, 0.12), (0.75, 0.75, 0.2)))
    return Appearance(*span, scene, shape, colour, str(rng.choice(MOTIONS)), across, down, size)


def film_sentence(event: Appearance, mentions: Sequence[str], rng: np.random.Generator) -> str:
    """One way to describe an event; motion and scene are left out where ``mentions`` does not name them."""
    parts = [str(rng.choice(_OPENINGS)), event.colour, str(rng.choice(_SHAPE_WORDS[event.shape]))]
    if "motion" in mentions:
        parts.append(str(rng.choice(_MOTION_WORDS[event.motion])))
    if "scene" in mentions:
        parts.append(str(rng.choice(_SCENE_WORDS[event.scene])))
    return " ".join(parts).replace("a orange", "an orange")


def draw_film_peaks(
    script: FilmScript, queries: Sequence[Query[Appearance]], config: RenderConfig, rng: np.random.Generator
) -> list[Peak[Appearance]]:
    """At most one peak for a film: a flash of a shape that a query describes in a film of another scene."""
    query = queries[int(rng.integers(len(queries)))]
    event, own = query.event, {(e.colour, e.shape) for e in script.events}
    first, last = _longest_gap(script)
    length = min(float(rng.uniform(*config.peak_seconds)), last - first)
    fits = event.scene != script.setting and event.colour != _CAMOUFLAGE[script.setting] and length > 0.1
    if not fits or (event.colour, event.shape) in own:
        return []
    start = first + (last - first - length) * rng.random()
    flash = replace(event, scene=script.setting, motion="still", start=round(start, 2), end=round(start + length, 2))
    return [Peak(flash, query.video)]


def _longest_gap(script: FilmScript) -> tuple[float, float]:
    """The longest stretch in which nothing happens."""
    ends = [0.0, *(event.end for event in script.events)]
    starts = [*(event.start for event in script.events), script.length]
    return max(zip(ends, starts, strict=True), key=lambda gap: gap[1] - gap[0])
