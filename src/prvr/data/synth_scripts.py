"""What happens in each synthetic video and what is said about it: plain facts, before any feature is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from prvr.data.synth_words import Vocabulary

if TYPE_CHECKING:
    from prvr.data.synth import SynthConfig


@dataclass(frozen=True)
class Event:
    """Somebody does ``action`` to ``thing`` in frames ``start … end`` (end excluded), in the look of ``topic``."""

    topic: int
    action: int
    thing: int
    start: int
    end: int


@dataclass(frozen=True)
class Peak:
    """A few frames that look like an event of another video and topic, unsupported by the rest of their video."""

    looks_like: Event  # its frames are those of the peak
    mimics: str  # the video whose event it looks like


@dataclass(frozen=True)
class Script:
    """One video: its topic pervades all frames; events follow each other; peaks belong to no event."""

    video: str
    topic: int
    frames: int
    events: tuple[Event, ...]
    peaks: tuple[Peak, ...] = ()


@dataclass(frozen=True)
class Query:
    """A sentence about one event; what it leaves out is None."""

    id: str
    video: str
    event: Event
    thing: int | None
    topic: int | None
    sentence: str


def write_scripts(config: SynthConfig, split: str, videos: int, rng: np.random.Generator) -> list[Script]:
    """Draw the videos of a split. Each topic has its own usual actions and objects: topics and events go together."""
    habits = np.random.default_rng((config.seed, 99))  # shared by the splits
    actions = habits.dirichlet(np.full(config.actions, config.habit), size=config.topics)  # (topics, actions)
    things = habits.dirichlet(np.full(config.objects, config.habit), size=config.topics)  # (topics, objects)
    scripts = []
    for index in range(videos):
        topic = int(rng.integers(config.topics))
        frames = int(rng.integers(config.frames[0], config.frames[1] + 1))
        wanted = min(int(rng.integers(config.events[0], config.events[1] + 1)), frames // 4)
        happenings: dict[tuple[int, int], None] = {}
        while len(happenings) < wanted:
            pair = int(rng.choice(config.actions, p=actions[topic])), int(rng.choice(config.objects, p=things[topic]))
            happenings[pair] = None
        spans = _spans(frames, wanted, rng)
        events = [Event(topic, *pair, *span) for pair, span in zip(happenings, spans, strict=True)]
        scripts.append(Script(f"{split}{index:05d}", topic, frames, tuple(events)))
    return scripts


def write_queries(
    config: SynthConfig, scripts: Sequence[Script], vocabulary: Vocabulary, rng: np.random.Generator
) -> list[Query]:
    """Describe some events of each video, each in a sentence that may leave out the object or the topic."""
    queries = []
    for script in scripts:
        wanted = min(int(rng.integers(config.queries[0], config.queries[1] + 1)), len(script.events))
        for order, chosen in enumerate(rng.permutation(len(script.events))[:wanted]):
            event = script.events[chosen]
            silent = rng.random()
            thing = None if silent < config.object_unsaid else event.thing
            topic = None if config.object_unsaid <= silent < config.object_unsaid + config.topic_unsaid else event.topic
            sentence = vocabulary.sentence(event.action, thing, topic, rng)
            queries.append(Query(f"{script.video}#enc#{order}", script.video, event, thing, topic, sentence))
    return queries


def plant_peaks(
    config: SynthConfig, scripts: Sequence[Script], queries: Sequence[Query], rng: np.random.Generator
) -> list[Script]:
    """Give a share of the videos peaks that look like events which queries of this split describe elsewhere."""
    planted = []
    for script in scripts:
        peaks: list[Peak] = []
        own = {(event.action, event.thing) for event in script.events}
        free = _free_frames(script)
        if rng.random() < config.unsupported_share and len(free):
            for _ in range(int(rng.integers(1, config.peaks + 1))):
                query = queries[int(rng.integers(len(queries)))]
                start = int(free[rng.integers(len(free))])
                length = int(rng.integers(config.peak_frames[0], config.peak_frames[1] + 1))
                event = query.event
                if event.topic != script.topic and (event.action, event.thing) not in own:
                    look = replace(event, start=start, end=_until_taken(free, start, length))
                    peaks.append(Peak(look, query.video))
                    free = np.setdiff1d(free, np.arange(look.start - 1, look.end + 1))
                if not len(free):
                    break
        planted.append(replace(script, peaks=tuple(peaks)))
    return planted


def all_positives(scripts: Sequence[Script], queries: Sequence[Query]) -> list[list[str]]:
    """Per query, every video with an event that is everything the sentence says; its own comes first."""
    having: dict[tuple[int, int | None, int | None], dict[str, None]] = defaultdict(dict)
    for script in scripts:
        for event in script.events:
            for thing in (event.thing, None):
                for topic in (event.topic, None):
                    having[event.action, thing, topic][script.video] = None
    return [
        list(dict.fromkeys([query.video, *having[query.event.action, query.thing, query.topic]])) for query in queries
    ]


def _spans(frames: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """``count`` stretches that do not touch, one at random in each equal part of the video, long and short ones."""
    edges = np.linspace(0, frames, count + 1).astype(int)
    spans = []
    for left, right in pairwise(edges.tolist()):
        length = max(2, int((right - left - 1) * rng.uniform(0.15, 0.9)))
        start = int(left + rng.integers(right - left - length))
        spans.append((start, start + length))
    return spans


def _free_frames(script: Script) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Frames in which nothing happens and nothing begins next to."""
    busy = np.zeros(script.frames + 1, dtype=bool)
    for event in script.events:
        busy[max(0, event.start - 1) : event.end + 1] = True
    return np.flatnonzero(~busy[: script.frames])


def _until_taken(free: np.ndarray[tuple[int], np.dtype[np.int64]], start: int, length: int) -> int:
    """The end of a stretch of at most ``length`` free frames from ``start``."""
    members = set(free.tolist())
    end = start + 1
    while end < start + length and end in members:
        end += 1
    return end
