"""The vocabulary that all worlds share: queries, peaks, matching videos, annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from prvr.worlds import Event, Peak, Query, Script
from prvr.worlds.script import annotate, draw_queries, matching_videos, plant_peaks


@dataclass(frozen=True)
class Sound(Event):
    animal: str
    volume: str


def script(video: str, *sounds: tuple[str, str]) -> Script[Sound, str]:
    events = [Sound(10 * number, 10 * number + 5, *sound) for number, sound in enumerate(sounds)]
    return Script(video, "farm", 10.0 * len(events), tuple(events))


SCRIPTS = [script("a", ("cow", "loud"), ("hen", "soft")), script("b", ("cow", "soft"), ("dog", "loud"))]


def words(event: Sound, mentions: Sequence[str], rng: np.random.Generator) -> str:
    return " ".join(getattr(event, name) for name in mentions)


def test_a_query_is_about_an_event_of_its_video_and_leaves_out_at_most_one_attribute() -> None:
    scripts = [script(f"v{number}", ("cow", "loud"), ("hen", "soft")) for number in range(2000)]
    shares = {"animal": 0.2, "volume": 0.3}
    queries = draw_queries(scripts, (1, 5), ("animal", "volume"), shares, words, np.random.default_rng(0))
    events = {script.video: script.events for script in scripts}
    assert all(query.event in events[query.video] for query in queries)
    assert len({query.id for query in queries}) == len(queries)
    assert {query.mentions for query in queries} == {("animal", "volume"), ("animal",), ("volume",)}
    assert all(query.sentence == words(query.event, query.mentions, np.random.default_rng()) for query in queries)
    for name, share in shares.items():
        without = sum(name not in query.mentions for query in queries)
        assert without / len(queries) == pytest.approx(share, abs=0.03)


def test_a_query_matches_every_video_that_has_what_it_mentions_and_its_own_comes_first() -> None:
    cow, dog = SCRIPTS[1].events
    queries = [
        Query("b#0", "b", cow, ("animal",), "a cow"),
        Query("b#1", "b", cow, ("animal", "volume"), "a soft cow"),
        Query("b#2", "b", dog, ("volume",), "something loud"),
    ]
    assert matching_videos(SCRIPTS, queries) == [["b", "a"], ["b"], ["b", "a"]]


def test_a_share_of_the_videos_gets_peaks() -> None:
    def draw_peaks(script: Script[Sound, str]) -> list[Peak[Sound]]:
        return [Peak(Sound(7, 8, "dog", "loud"), "b")]

    planted = plant_peaks(SCRIPTS * 500, 0.3, draw_peaks, np.random.default_rng(0))
    assert sum(bool(script.peaks) for script in planted) == pytest.approx(300, abs=45)
    assert [script.events for script in planted] == [script.events for script in SCRIPTS * 500]


def test_annotations_are_in_seconds() -> None:
    query = Query("b#1", "b", SCRIPTS[1].events[1], ("animal",), "a dog")
    (annotation,) = annotate(SCRIPTS, [query], [["b"]], rate=2.0)  # times are frames, two per second
    moment = annotation.moment
    assert (moment.video, moment.start, moment.end, moment.duration) == ("b", 5.0, 7.5, 10.0)
    assert (annotation.id, annotation.sentence, annotation.positives) == ("b#1", "a dog", ["b"])
