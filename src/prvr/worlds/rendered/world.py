"""A rendered world: small real video files, drawn and encoded on this machine, with captions and their times.

A film shows one scene. A few coloured shapes appear in it one after the other, and move. A query describes one of them.
Some films also hold an *unsupported peak*: a flash of a shape that another film's query describes, in a scene where it
does not belong, without the motion.

What it can show: that everything from a video file to a found moment works, and how methods behave on it. What it
cannot show: anything about real videos and real language.

    world = render_world("films", RENDERED_SIZES["tiny"])
    world.videos["test0000"], world.queries["test"][0].sentence
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prvr.files import whole_folder
from prvr.media import Image, MediaError, write_video
from prvr.processes import map_in_processes
from prvr.worlds.rendered.config import RENDERED_SIZES, RenderConfig
from prvr.worlds.rendered.events import (
    APPEARANCE_ATTRIBUTES,
    Appearance,
    FilmScript,
    draw_film_peaks,
    draw_film_scripts,
    film_sentence,
)
from prvr.worlds.rendered.scenes import Canvas, background
from prvr.worlds.rendered.shapes import as_picture, paint_shape, shape_position
from prvr.worlds.script import SPLITS, Query, draw_queries, matching_videos, plant_peaks


@dataclass(frozen=True)
class RenderedWorld:
    """The files of a world, and what is known about them."""

    folder: Path
    videos: dict[str, Path]  # by video id
    scripts: dict[str, list[FilmScript]]  # by split
    queries: dict[str, list[Query[Appearance]]]  # by split

    def positives(self, split: str, query: Query[Appearance]) -> list[str]:
        """All films of the split that a query is true of; its own comes first."""
        return matching_videos(self.scripts[split], [query])[0]


def plan_world(folder: str | Path, config: RenderConfig) -> RenderedWorld:
    """The facts of a world, without drawing it: what ``render_world`` would write, or wrote, into a folder."""
    scripts, queries = {}, {}
    videos: dict[str, Path] = {}
    for number, split in enumerate(SPLITS):
        rng = np.random.default_rng((config.seed, 30, number))
        scripts[split], queries[split] = _draw_split(config, split, rng)
        videos |= {script.video: Path(folder) / "videos" / f"{script.video}.mp4" for script in scripts[split]}
    return RenderedWorld(Path(folder), videos, scripts, queries)


def _draw_split(
    config: RenderConfig, split: str, rng: np.random.Generator
) -> tuple[list[FilmScript], list[Query[Appearance]]]:
    scripts = draw_film_scripts(config, split, getattr(config, split), rng)
    left_out = {"motion": config.motion_unsaid, "scene": config.scene_unsaid}
    queries = draw_queries(scripts, config.queries, APPEARANCE_ATTRIBUTES, left_out, film_sentence, rng)
    scripts = plant_peaks(scripts, config.peak_share, lambda script: draw_film_peaks(script, queries, config, rng), rng)
    return scripts, queries


def render_world(
    folder: str | Path,
    config: RenderConfig = RENDERED_SIZES["demo"],
    *,
    drawn: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> RenderedWorld:
    """Write ``folder/videos/*.mp4`` and ``folder/world.json``.

    The folder appears when it is complete, and replaces an older world of that name.

    Args:
        folder: where to write.
        config: the numbers of the world.
        drawn: called with (done, total) after each film.
        workers: processes that draw.

    Raises:
        MediaError: the folder exists and holds something other than a rendered world.
    """
    there = Path(folder)
    if there.exists() and not (there / "world.json").is_file() and (not there.is_dir() or any(there.iterdir())):
        raise MediaError(there, "holds something other than a rendered world: choose another folder")
    world = plan_world(folder, config)
    films = list(enumerate(script for split in SPLITS for script in world.scripts[split]))
    with whole_folder(Path(folder)) as beside:
        (beside / "videos").mkdir()
        for done, _ in enumerate(map_in_processes(partial(_write_film, beside / "videos", config), films, workers), 1):
            if drawn is not None:
                drawn(done, len(films))
        facts = json.dumps(_world_facts(world, config), indent=1)
        (beside / "world.json").write_text(facts, encoding="utf-8")
    return world


def _world_facts(world: RenderedWorld, config: RenderConfig) -> dict[str, Any]:
    """What ``world.json`` says."""
    return {
        "config": asdict(config),
        "films": {split: [_script_facts(script) for script in world.scripts[split]] for split in SPLITS},
        "queries": {split: [_query_facts(query) for query in world.queries[split]] for split in SPLITS},
    }


def _script_facts(script: FilmScript) -> dict[str, Any]:
    return {
        "video": script.video,
        "scene": script.setting,
        "seconds": script.length,
        "events": [_event_facts(event) for event in script.events],
        "peaks": [{"event": _event_facts(peak.event), "mimics": peak.mimics} for peak in script.peaks],
    }


def _query_facts(query: Query[Appearance]) -> dict[str, Any]:
    return {
        "id": query.id,
        "video": query.video,
        "event": _event_facts(query.event),
        "said": query.mentions,
        "sentence": query.sentence,
    }


def _event_facts(event: Appearance) -> dict[str, Any]:
    names = ("scene", "shape", "colour", "motion", "start", "end", "across", "down", "size")
    return {name: getattr(event, name) for name in names}


def _write_film(folder: Path, config: RenderConfig, film: tuple[int, FilmScript]) -> None:
    number, script = film
    pictures = draw_film(script, config, np.random.default_rng((config.seed, 40, number)))
    options = {"preset": "superfast", "crf": "26", "g": "50"}
    write_video(folder / f"{script.video}.mp4", pictures, fps=config.fps, options=options)


def draw_film(script: FilmScript, config: RenderConfig, rng: np.random.Generator) -> Iterator[Image]:
    """The pictures of a film, in order."""
    scene = background(script.setting, config.width, config.height, rng)
    flicker = rng.normal(0, 2.0, round(script.length * config.fps) + 1)
    for number in range(max(1, round(script.length * config.fps))):
        time = number / config.fps
        canvas = scene + np.float32(flicker[number])
        for event in (*script.events, *(peak.event for peak in script.peaks)):
            if event.start <= time < event.end:
                canvas = _with_event(canvas, event, time)
        yield as_picture(canvas)


def _with_event(canvas: Canvas, event: Appearance, time: float) -> Canvas:
    share = (time - event.start) / (event.end - event.start)
    x, y, scale = shape_position(event.motion, share, event.across, event.down)
    return paint_shape(canvas, event.shape, event.colour, x, y, scale * event.size)
