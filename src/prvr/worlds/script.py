"""The vocabulary that all made-up data shares: scripts, events, peaks and queries.

A *script* says what happens in one video: its setting, which holds from the first to the last frame, and *events*, each
with a start and an end. A *query* is a sentence about one event; it may leave out some of the event's attributes. A
*peak* is a short stretch that looks like an event of another video, although nothing else in its own video supports it.

Each kind of world has its own events (``Activity``, ``Appearance``, ``Label``). A world draws its scripts first, then
makes features or films of them, so the correct answer to every query is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from prvr.data import Annotation, Moment

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Event:
    """Something that happens from ``start`` to ``end`` (end excluded): seconds, or frames in a feature world."""

    start: float
    end: float


E = TypeVar("E", bound=Event)
S = TypeVar("S")


@dataclass(frozen=True)
class Peak(Generic[E]):
    """A short stretch that looks like an event of another video."""

    event: E  # with the times of the peak
    mimics: str  # the video whose event it looks like


@dataclass(frozen=True)
class Script(Generic[E, S]):
    """What happens in one video."""

    video: str
    setting: S  # what holds throughout: a topic, a scene, or the texts of scene and objects
    length: float  # in the unit of the events' times
    events: tuple[E, ...]
    peaks: tuple[Peak[E], ...] = ()


@dataclass(frozen=True)
class Query(Generic[E]):
    """A sentence about one event of a video."""

    id: str
    video: str
    event: E
    mentions: tuple[str, ...]  # the attributes of the event that the sentence states
    sentence: str


def draw_queries(
    scripts: Iterable[Script[E, S]],
    per_video: tuple[int, int],
    attributes: Sequence[str],
    left_out: Mapping[str, float],
    sentence: Callable[[E, Sequence[str], np.random.Generator], str],
    rng: np.random.Generator,
) -> list[Query[E]]:
    """Describe some events of each video.

    Args:
        scripts: the videos to describe.
        per_video: fewest and most queries per video; never more than it has events.
        attributes: the attributes of an event that a sentence can state.
        left_out: for some attributes, the share of sentences that leave it out; a sentence leaves out at most one.
        sentence: words an event, given which attributes to state.
        rng: source of all choices.
    """
    queries = []
    for script in scripts:
        count = min(int(rng.integers(per_video[0], per_video[1] + 1)), len(script.events))
        for order, chosen in enumerate(rng.permutation(len(script.events))[:count]):
            event = script.events[chosen]
            missing = _choose_missing(left_out, rng.random())
            mentions = tuple(name for name in attributes if name != missing)
            query_id = f"{script.video}#enc#{order}"
            queries.append(Query(query_id, script.video, event, mentions, sentence(event, mentions, rng)))
    return queries


def _choose_missing(left_out: Mapping[str, float], lot: float) -> str | None:
    """The attribute that a random number between 0 and 1 selects; None if it selects none."""
    bound = 0.0
    for name, share in left_out.items():
        bound += share
        if lot < bound:
            return name
    return None


def plant_peaks(
    scripts: Iterable[Script[E, S]],
    share: float,
    draw_peaks: Callable[[Script[E, S]], Sequence[Peak[E]]],
    rng: np.random.Generator,
) -> list[Script[E, S]]:
    """Give a share of the videos the peaks that ``draw_peaks`` finds for them (possibly none)."""
    return [replace(script, peaks=tuple(draw_peaks(script))) if rng.random() < share else script for script in scripts]


def matching_videos(scripts: Iterable[Script[E, S]], queries: Sequence[Query[E]]) -> list[list[str]]:
    """For each query, every video with an event that has all the attributes the query mentions; its own comes first."""
    videos: dict[tuple[str, ...], dict[tuple[Any, ...], dict[str, None]]] = {
        mentions: defaultdict(dict) for mentions in {query.mentions for query in queries}
    }
    for script in scripts:
        for event in script.events:
            for mentions, by_values in videos.items():
                by_values[_values(event, mentions)][script.video] = None
    return [
        list(dict.fromkeys([query.video, *videos[query.mentions][_values(query.event, query.mentions)]]))
        for query in queries
    ]


def matching_events(scripts: Iterable[Script[E, S]], query: Query[E]) -> dict[str, list[E]]:
    """Every video with events that have all the attributes the query mentions, and those events."""
    wanted = _values(query.event, query.mentions)
    events = {script.video: [e for e in script.events if _values(e, query.mentions) == wanted] for script in scripts}
    return {video: found for video, found in events.items() if found}


def shown_nowhere(scripts: Sequence[Script[E, S]], queries: Iterable[Query[E]]) -> list[Query[E]]:
    """The queries that are true of no event and of no peak of any of these videos, in their order."""
    looks = [replace(s, events=(*s.events, *(peak.event for peak in s.peaks))) for s in scripts]
    return [query for query in queries if not matching_events(looks, query)]


def _values(event: Event, attributes: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in attributes)


def annotate(
    scripts: Iterable[Script[E, S]],
    queries: Sequence[Query[E]],
    positives: Sequence[Sequence[str]],
    *,
    rate: float = 1.0,
) -> list[Annotation]:
    """The queries of one split as the annotations of a dataset.

    Args:
        scripts: the videos of the split.
        queries: the sentences about them.
        positives: for each query, the videos it is true of.
        rate: units of time per second: 1 where times are seconds, the frame rate where they are frames.
    """
    seconds = {script.video: script.length / rate for script in scripts}
    return [
        Annotation(
            id=query.id,
            sentence=query.sentence,
            moment=Moment(query.video, query.event.start / rate, query.event.end / rate, seconds[query.video]),
            positives=videos,
        )
        for query, videos in zip(queries, positives, strict=True)
    ]
