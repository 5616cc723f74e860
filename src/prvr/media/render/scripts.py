"""What happens in each film and what is said about it: plain facts, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prvr.media.render.scenes import SCENES
from prvr.media.render.things import COLOURS, MOTIONS, SHAPES

if TYPE_CHECKING:
    from prvr.media.render.world import RenderConfig

# The colour a place is full of: a thing of that colour would not be seen there.
_CAMOUFLAGE = {"meadow": "green", "sea": "blue", "desert": "yellow", "night": "black", "snow": "white",
               "bricks": "red", "road": "black", "sunset": "orange"}  # fmt: skip

# Several ways to say the same; a writer picks one.
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
class Event:
    """A thing of some shape and colour does something at a place, from ``start`` to ``end`` (seconds)."""

    scene: str
    shape: str
    colour: str
    motion: str
    start: float
    end: float
    across: float = 0.5  # where it stands or moves along, as shares of the picture
    down: float = 0.5
    size: float = 0.16  # in heights of the picture


@dataclass(frozen=True)
class Peak:
    """A flash of a thing that another film's sentence is about, at a place where it does not belong."""

    event: Event  # its scene is this film's; it does not move
    mimics: str  # the film whose event it looks like


@dataclass(frozen=True)
class Script:
    """One film: one place, events one after the other, peaks between them."""

    video: str
    scene: str
    seconds: float
    events: tuple[Event, ...]
    peaks: tuple[Peak, ...] = ()


@dataclass(frozen=True)
class Query:
    """A sentence about one event; ``said`` holds the attributes it mentions."""

    id: str
    video: str
    event: Event
    said: tuple[str, ...]
    sentence: str


def write_scripts(config: RenderConfig, split: str, count: int, rng: np.random.Generator) -> list[Script]:
    """Draw lots for the films of a split."""
    scripts = []
    for number in range(count):
        scene = str(rng.choice(SCENES))
        wanted = int(rng.integers(config.events[0], config.events[1] + 1))
        seconds = float(np.round(rng.uniform(*config.seconds), 2))
        part = seconds / wanted
        usable = [colour for colour in COLOURS if colour != _CAMOUFLAGE[scene]]
        looks: dict[tuple[str, str], None] = {}
        while len(looks) < wanted:  # no thing twice in one film
            looks[str(rng.choice(usable)), str(rng.choice(SHAPES))] = None
        events = []
        for order, (colour, shape) in enumerate(looks):
            length = part * rng.uniform(0.45, 0.8)
            start = order * part + rng.uniform(0.05, 0.95) * (part - length)
            span = round(float(start), 2), round(float(start + length), 2)
            across, down, size = (round(float(x), 3) for x in rng.uniform((0.25, 0.25, 0.12), (0.75, 0.75, 0.2)))
            events.append(Event(scene, shape, colour, str(rng.choice(MOTIONS)), *span, across, down, size))
        scripts.append(Script(f"{split}{number:04d}", scene, seconds, tuple(events)))
    return scripts


def write_queries(config: RenderConfig, scripts: Sequence[Script], rng: np.random.Generator) -> list[Query]:
    """Describe events; a sentence may leave out the place or the motion, never what it is about."""
    queries = []
    for script in scripts:
        wanted = min(int(rng.integers(config.queries[0], config.queries[1] + 1)), len(script.events))
        for order, chosen in enumerate(rng.permutation(len(script.events))[:wanted]):
            event = script.events[chosen]
            silent = rng.random()
            said = ["colour", "shape"]
            said += ["motion"] if silent >= config.motion_unsaid else []
            said += ["scene"] if not config.motion_unsaid <= silent < config.motion_unsaid + config.scene_unsaid else []
            query_id = f"{script.video}#enc#{order}"
            queries.append(Query(query_id, script.video, event, tuple(said), sentence(event, said, rng)))
    return queries


def sentence(event: Event, said: Sequence[str], rng: np.random.Generator) -> str:
    """One way to say what an event is, as far as it is to be said."""
    parts = [str(rng.choice(_OPENINGS)), event.colour, str(rng.choice(_SHAPE_WORDS[event.shape]))]
    if "motion" in said:
        parts.append(str(rng.choice(_MOTION_WORDS[event.motion])))
    if "scene" in said:
        parts.append(str(rng.choice(_SCENE_WORDS[event.scene])))
    return " ".join(parts).replace("a orange", "an orange")


def plant_peaks(
    config: RenderConfig, scripts: Sequence[Script], queries: Sequence[Query], rng: np.random.Generator
) -> list[Script]:
    """Give a share of the films a flash of a thing that some sentence of this split is about, elsewhere."""
    planted = []
    for script in scripts:
        peaks = []
        if rng.random() < config.peak_share:
            query = queries[int(rng.integers(len(queries)))]
            event, own = query.event, {(e.colour, e.shape) for e in script.events}
            gap = _longest_gap(script)
            length = min(float(rng.uniform(*config.peak_seconds)), gap[1] - gap[0])
            fits = event.scene != script.scene and event.colour != _CAMOUFLAGE[script.scene] and length > 0.1
            if fits and (event.colour, event.shape) not in own:
                start = gap[0] + (gap[1] - gap[0] - length) * rng.random()
                flash = replace(
                    event, scene=script.scene, motion="still", start=round(start, 2), end=round(start + length, 2)
                )
                peaks.append(Peak(flash, query.video))
        planted.append(replace(script, peaks=tuple(peaks)))
    return planted


def positives(scripts: Sequence[Script], query: Query) -> list[str]:
    """Every film with an event that is everything the sentence says; its own comes first."""

    def same(event: Event) -> bool:
        return all(getattr(event, name) == getattr(query.event, name) for name in query.said)

    found = [script.video for script in scripts if any(same(event) for event in script.events)]
    return list(dict.fromkeys([query.video, *found]))


def _longest_gap(script: Script) -> tuple[float, float]:
    """The longest stretch in which nothing happens."""
    ends = [0.0, *(event.end for event in script.events)]
    starts = [*(event.start for event in script.events), script.seconds]
    return max(zip(ends, starts, strict=True), key=lambda gap: gap[1] - gap[0])
