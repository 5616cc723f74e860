"""A rendered world: small real video files, drawn and encoded on the spot, with captions and their times.

A film shows one place; a few things of some shape and colour come one after the other, and move. A sentence describes
one of them. Some films also hold an *unsupported peak*: a flash of a thing that another film's sentence is about, at
a place where it does not belong, without the motion.

What it can show: that everything from a video file to a found moment works, and how methods behave on it. What it
cannot show: anything about real videos and real language.

    world = render_world("films", SIZES["tiny"])
    world.videos["test0000"], world.queries["test"][0].sentence
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from prvr.files import whole_folder
from prvr.media.errors import MediaError
from prvr.media.frames import Image
from prvr.media.render.scenes import Canvas, background
from prvr.media.render.scripts import Event, Query, Script, plant_peaks, positives, write_queries, write_scripts
from prvr.media.render.things import as_picture, paint, place
from prvr.media.writer import write_video
from prvr.processes import map_in_processes

SPLITS = ("train", "val", "test")


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
                raise ValueError(f"a rendered world needs 0 < fewest ≤ most {name}, not {low} and {high}")
        if min(self.train, self.val, self.test) < 1 or min(self.width, self.height) < 32 or self.fps <= 0:
            raise ValueError("a rendered world needs films in every split, at least 32 × 32 pixels and a frame rate")
        if self.motion_unsaid + self.scene_unsaid > 1 or self.seconds[0] < 1.5 * self.events[1]:
            raise ValueError("films need 1.5 seconds per event, and motion_unsaid + scene_unsaid ≤ 1")


SIZES: dict[str, RenderConfig] = {
    "tiny": RenderConfig(
        train=8, val=3, test=5, events=(2, 3), queries=(1, 2), seconds=(6.0, 9.0), width=96, height=72, fps=8
    ),
    "demo": RenderConfig(train=720, fps=8),
}


@dataclass(frozen=True)
class RenderedWorld:
    """Files and facts."""

    folder: Path
    videos: dict[str, Path]  # by video id
    scripts: dict[str, list[Script]]  # by split
    queries: dict[str, list[Query]]  # by split

    def positives(self, split: str, query: Query) -> list[str]:
        """All films of the split that a sentence is true of."""
        return positives(self.scripts[split], query)


def plan_world(folder: str | Path, config: RenderConfig) -> RenderedWorld:
    """All facts of a world that would be, or was, rendered into a folder; draws nothing."""
    scripts, queries = {}, {}
    videos: dict[str, Path] = {}
    for number, split in enumerate(SPLITS):
        rng = np.random.default_rng((config.seed, 30, number))
        told = write_scripts(config, split, getattr(config, split), rng)
        queries[split] = write_queries(config, told, rng)
        scripts[split] = plant_peaks(config, told, queries[split], rng)
        videos |= {script.video: Path(folder) / "videos" / f"{script.video}.mp4" for script in told}
    return RenderedWorld(Path(folder), videos, scripts, queries)


def render_world(
    folder: str | Path,
    config: RenderConfig = SIZES["demo"],
    *,
    drawn: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> RenderedWorld:
    """Write ``folder/videos/*.mp4`` and ``folder/world.json``; ``drawn(done, total)`` is called after each film.

    The folder appears when it is complete, and replaces an older one of that name. ``workers``: processes that draw.
    """
    there = Path(folder)
    if there.exists() and not (there / "world.json").is_file() and (not there.is_dir() or any(there.iterdir())):
        raise MediaError(there, "holds something else than a rendered world: choose another folder")
    world = plan_world(folder, config)
    scripts = [script for split in SPLITS for script in world.scripts[split]]
    with whole_folder(Path(folder)) as beside:
        (beside / "videos").mkdir()
        films = list(enumerate(scripts))
        for done, _ in enumerate(map_in_processes(partial(_write_film, beside / "videos", config), films, workers), 1):
            if drawn is not None:
                drawn(done, len(scripts))
        facts = {
            "config": asdict(config),
            "films": {split: [asdict(script) for script in world.scripts[split]] for split in SPLITS},
            "queries": {split: [asdict(query) for query in world.queries[split]] for split in SPLITS},
        }
        (beside / "world.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return world


def _write_film(folder: Path, config: RenderConfig, film: tuple[int, Script]) -> None:
    number, script = film
    pictures = draw_film(script, config, np.random.default_rng((config.seed, 40, number)))
    options = {"preset": "superfast", "crf": "26", "g": "50"}
    write_video(folder / f"{script.video}.mp4", pictures, fps=config.fps, options=options)


def draw_film(script: Script, config: RenderConfig, rng: np.random.Generator) -> Iterator[Image]:
    """The pictures of a film, in order."""
    scene = background(script.scene, config.width, config.height, rng)
    flicker = rng.normal(0, 2.0, round(script.seconds * config.fps) + 1)
    for number in range(max(1, round(script.seconds * config.fps))):
        time = number / config.fps
        canvas = scene + np.float32(flicker[number])
        for event in (*script.events, *(peak.event for peak in script.peaks)):
            if event.start <= time < event.end:
                canvas = _with_event(canvas, event, time)
        yield as_picture(canvas)


def _with_event(canvas: Canvas, event: Event, time: float) -> Canvas:
    x, y, scale = place(event.motion, (time - event.start) / (event.end - event.start), event.across, event.down)
    return paint(canvas, event.shape, event.colour, x, y, scale * event.size)
