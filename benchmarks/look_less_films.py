"""Films for ``look_less.py``: still ones, busy ones, and short events in them.

In each film coloured shapes appear for a short while. They are large or small (2 % of the picture), strong or faint,
and last 1 s to 1.9 s, so that one frame per second sees some of them only once. Slides also gain lines of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.media import Image, write_video
from prvr.worlds import SHAPE_COLOURS, paint_shape

WIDTH, HEIGHT, FPS, SECONDS = 320, 180, 10, 40
_SIZES = (0.11, 0.11, 0.2)  # in heights of the picture; 0.11 is a circle that covers 2 % of it
_STRENGTHS = (1.0, 1.0, 0.15)  # how opaque a shape is; 0.15 changes its background by some 15 levels of 255
_SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross")
_EVENTS = 4  # shapes in each film

Canvas = NDArray[np.float32]  # (H, W, 3), 0 to 255
Painter = Callable[[float], Canvas]  # the picture at a time, without events


@dataclass(frozen=True)
class ShownEvent:
    """Something that is seen for at least a second."""

    start: float  # seconds
    end: float
    sentence: str = ""  # empty: a change that nobody asks for
    colour: str = ""
    shape: str = ""
    place: tuple[float, float] = (0.5, 0.5)
    size: float = 0.2
    strength: float = 1.0

    @property
    def faint(self) -> bool:
        return self.strength < 1


@dataclass(frozen=True)
class MadeFilm:
    """A video file, and what happens in it."""

    path: Path
    events: tuple[ShownEvent, ...]


@dataclass(frozen=True)
class FilmKind:
    """How films of one kind are painted and compressed."""

    painter: Callable[[np.random.Generator], tuple[Painter, list[ShownEvent]]]
    grain: float = 0.0  # standard deviation of each picture's own noise, of 255 levels
    crf: int = 26  # x264's quality; 26 is usual, 42 a video call on a bad line
    hidden: str = ""  # a colour that cannot be seen there


def make_films(folder: Path, kind: str, count: int, seed: int) -> list[MadeFilm]:
    """Write ``count`` films of a kind. No two show the same shape in the same colour."""
    rng = np.random.default_rng((seed, *kind.encode()))
    looks = [(colour, shape) for colour in SHAPE_COLOURS if colour != KINDS[kind].hidden for shape in _SHAPES]
    chosen = rng.permutation(len(looks))[: count * _EVENTS].reshape(count, _EVENTS)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _make_film(folder / f"{number}.mp4", KINDS[kind], [looks[each] for each in row], rng)
        for number, row in enumerate(chosen)
    ]


def _make_film(path: Path, kind: FilmKind, looks: list[tuple[str, str]], rng: np.random.Generator) -> MadeFilm:
    painter, changes = kind.painter(rng)
    events, part = [], SECONDS / len(looks)
    for number, (colour, shape) in enumerate(looks):
        length = float(rng.choice((1.0, 1.0, 1.5, 1.9)))
        start = float(number * part + rng.uniform(2, part - length - 1))
        place = (float(rng.uniform(0.1, 0.9)), float(rng.uniform(0.2, 0.8)))
        size, strength = float(rng.choice(_SIZES)), float(rng.choice(_STRENGTHS))
        sentence = f"a {colour} {shape}"
        events.append(ShownEvent(start, start + length, sentence, colour, shape, place, size, strength))

    def pictures() -> Iterator[Image]:
        for number in range(SECONDS * FPS):
            canvas = _with_events(painter(number / FPS), events, number / FPS)
            if kind.grain:
                canvas = canvas + rng.normal(0, kind.grain, (HEIGHT, WIDTH, 1)).astype(np.float32)
            yield np.clip(canvas, 0, 255).astype(np.uint8)

    options = {"preset": "veryfast", "crf": str(kind.crf), "g": "50"}
    return MadeFilm(write_video(path, pictures(), fps=FPS, options=options), (*events, *changes))


def _with_events(canvas: Canvas, events: list[ShownEvent], time: float) -> Canvas:
    for event in events:
        if event.start <= time < event.end:
            painted = paint_shape(canvas.copy(), event.shape, event.colour, *event.place, event.size)
            canvas = canvas + np.float32(event.strength) * (painted - canvas)
    return canvas


# -- what is behind the events ----------------------------------------------------------------------------------------


def _texture(rng: np.random.Generator, width: int = WIDTH, height: int = HEIGHT) -> Canvas:
    """Soft patches of two muted colours, with finer detail on them."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    share = np.zeros((height, width), np.float32)
    for waves in (2, 5, 11, 23):
        angle, phase = rng.uniform(0, np.pi), rng.uniform(0, 2 * np.pi)
        along = (np.cos(angle) * x + np.sin(angle) * y) / HEIGHT
        share += np.sin(2 * np.pi * waves * along + phase).astype(np.float32) / np.float32(waves) ** 0.5
    share = np.clip(0.5 + 0.3 * share, 0, 1)[..., None]
    first, second = rng.uniform(60, 190, (2, 3)).astype(np.float32)
    grey = np.float32(0.6)  # of each colour, so that no background is as strong as a shape
    first, second = (grey * c.mean() + (1 - grey) * c for c in (first, second))
    return share * first + (1 - share) * second


def _slides(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    """Pages with a title, to which lines of text are added one by one."""
    pages: list[tuple[float, Canvas]] = []  # since when, and the picture
    changes: list[ShownEvent] = []
    time = 0.0
    while time < SECONDS:
        page = np.full((HEIGHT, WIDTH, 3), rng.uniform(225, 255), np.float32)
        _write_line(page, 14, 10, rng)
        pages.append((time, page))
        for line in range(int(rng.integers(3, 7))):
            length = float(rng.uniform(3, 10))
            changes.append(ShownEvent(time, min(time + length, SECONDS)))
            time += length
            page = page.copy()
            _write_line(page, 45 + 20 * line, 5, rng)
            pages.append((time, page))
    starts = np.array([start for start, _ in pages])
    return lambda now: pages[int(np.searchsorted(starts, now, "right")) - 1][1], [
        change for change in changes if change.end - change.start >= 1
    ]


def _write_line(page: Canvas, top: int, tall: int, rng: np.random.Generator) -> None:
    """Words as dark bars; the shortest line is one word."""
    left, end = 20, int(rng.integers(60, WIDTH - 40))
    while left < end:
        right = left + int(rng.integers(8, 34))
        page[top : top + tall, left:right] = 40
        page[top + tall // 3 : top + tall // 3 + 1, left:right] = 200  # letters are not solid
        left = right + 6


def _talking_head(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    """A still room, and a head that sways, blinks and speaks."""
    room, y, x = _texture(rng), *np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    room = np.where((np.hypot((x - 160) / 70, (y - 190) / 70) < 1)[..., None], np.float32(70), room)
    sway, speech, skin = rng.uniform(0.1, 0.3), rng.uniform(2, 4), np.array((205, 160, 135), np.float32)

    def paint(time: float) -> Canvas:
        across = 160 + 4 * np.sin(2 * np.pi * sway * time)
        down = 85 + 2 * np.sin(2 * np.pi * 1.7 * sway * time)
        canvas = np.where((np.hypot((x - across) / 32, (y - down) / 42) < 1)[..., None], skin, room)
        speaking = np.sin(2 * np.pi * 0.11 * time) > -0.3  # pauses between sentences
        mouth = 2 + (5 * abs(np.sin(2 * np.pi * speech * time)) if speaking else 0)
        canvas[np.hypot((x - across) / 11, (y - down - 20) / mouth) < 1] = (120, 40, 45)
        if time % 4 > 0.2:  # open eyes
            canvas[np.minimum(abs(x - across - 12), abs(x - across + 12)) + abs(y - down + 8) < 4] = 30
        return canvas

    return paint, []


def _static_camera(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    """Nothing but the light, which changes slowly."""
    scene, slow = _texture(rng), rng.uniform(20, 60)
    return lambda time: scene + np.float32(5 * np.sin(2 * np.pi * time / slow)), []


def _pan(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    wide = _texture(rng, WIDTH + 12 * SECONDS)
    return lambda time: wide[:, int(12 * time) : int(12 * time) + WIDTH], []


def _shake(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    large = _texture(rng, WIDTH + 16, HEIGHT + 16)

    def paint(time: float) -> Canvas:
        left, top = rng.integers(0, 17, 2)
        return large[top : top + HEIGHT, left : left + WIDTH]

    return paint, []


def _fades(rng: np.random.Generator) -> tuple[Painter, list[ShownEvent]]:
    """Scenes of 8 s that fade into each other for 3 s."""
    scenes = [_texture(rng) for _ in range(SECONDS // 8 + 2)]

    def paint(time: float) -> Canvas:
        number, within = divmod(time, 8)
        share = np.float32(np.clip((within - 5) / 3, 0, 1))
        return (1 - share) * scenes[int(number)] + share * scenes[int(number) + 1]

    return paint, []


KINDS = {
    "slides": FilmKind(_slides, hidden="white"),
    "slides, low bitrate": FilmKind(_slides, crf=42, hidden="white"),
    "talking head": FilmKind(_talking_head, grain=1.5),
    "static camera": FilmKind(_static_camera, grain=3.0),
    "static camera, low bitrate": FilmKind(_static_camera, grain=3.0, crf=42),
    "pan": FilmKind(_pan),
    "camera shake": FilmKind(_shake),
    "fades": FilmKind(_fades),
    "film grain": FilmKind(_static_camera, grain=16.0),
    "pan, low bitrate": FilmKind(_pan, crf=42),
}
