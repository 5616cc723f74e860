"""What happens in each video of a feature world: plain facts, before any feature is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prvr.worlds.features.config import FeatureWorldConfig
from prvr.worlds.script import Event, Peak, Query, Script

ACTIVITY_ATTRIBUTES = ("action", "object", "topic")  # of an activity, as a sentence can state them


@dataclass(frozen=True)
class Activity(Event):
    """Somebody does ``action`` to ``object`` in frames ``start … end`` (end excluded), in the look of ``topic``."""

    start: int
    end: int
    topic: int
    action: int
    object: int


FeatureScript: TypeAlias = Script[Activity, int]  # the setting is the topic


def draw_feature_scripts(
    config: FeatureWorldConfig, split: str, videos: int, rng: np.random.Generator
) -> list[FeatureScript]:
    """Draw the videos of a split. Each topic has its own usual actions and objects: topics and events go together."""
    habits = np.random.default_rng((config.seed, 99))  # shared by the splits
    actions = habits.dirichlet(np.full(config.actions, config.habit), size=config.topics)  # (topics, actions)
    objects = habits.dirichlet(np.full(config.objects, config.habit), size=config.topics)  # (topics, objects)
    scripts = []
    for index in range(videos):
        topic = int(rng.integers(config.topics))
        frames = int(rng.integers(config.frames[0], config.frames[1] + 1))
        count = min(int(rng.integers(config.events[0], config.events[1] + 1)), frames // 4)
        pairs: dict[tuple[int, int], None] = {}
        while len(pairs) < count:
            pair = int(rng.choice(config.actions, p=actions[topic])), int(rng.choice(config.objects, p=objects[topic]))
            pairs[pair] = None
        spans = _draw_spans(frames, count, rng)
        events = [Activity(*span, topic, *pair) for pair, span in zip(pairs, spans, strict=True)]
        scripts.append(Script(f"{split}{index:05d}", topic, frames, tuple(events)))
    return scripts


def draw_feature_peaks(
    script: FeatureScript, queries: Sequence[Query[Activity]], config: FeatureWorldConfig, rng: np.random.Generator
) -> list[Peak[Activity]]:
    """Peaks for one video that look like events which the queries describe in other videos."""
    peaks: list[Peak[Activity]] = []
    own = {(event.action, event.object) for event in script.events}
    free = _free_frames(script)
    if not len(free):
        return peaks
    for _ in range(int(rng.integers(1, config.peaks + 1))):
        query = queries[int(rng.integers(len(queries)))]
        start = int(free[rng.integers(len(free))])
        length = int(rng.integers(config.peak_frames[0], config.peak_frames[1] + 1))
        event = query.event
        if event.topic != script.setting and (event.action, event.object) not in own:
            look = replace(event, start=start, end=_free_end(free, start, length))
            peaks.append(Peak(look, query.video))
            free = np.setdiff1d(free, np.arange(look.start - 1, look.end + 1))
        if not len(free):
            break
    return peaks


def _draw_spans(frames: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """``count`` stretches that do not touch, one at random in each equal part of the video, long and short ones."""
    edges = np.linspace(0, frames, count + 1).astype(int)
    spans = []
    for left, right in pairwise(edges.tolist()):
        length = max(2, int((right - left - 1) * rng.uniform(0.15, 0.9)))
        start = int(left + rng.integers(right - left - length))
        spans.append((start, start + length))
    return spans


def _free_frames(script: FeatureScript) -> NDArray[np.int64]:
    """Frames that are neither in an event nor next to one."""
    frames = int(script.length)
    busy = np.zeros(frames + 1, dtype=bool)
    for event in script.events:
        busy[max(0, event.start - 1) : event.end + 1] = True
    return np.flatnonzero(~busy[:frames])


def _free_end(free: NDArray[np.int64], start: int, length: int) -> int:
    """The end of a stretch of at most ``length`` free frames from ``start``."""
    members = set(free.tolist())
    end = start + 1
    while end < start + length and end in members:
        end += 1
    return end
