"""The rendered world: real files, the same each time, with what its captions say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prvr.data import DataError
from prvr.media import MediaError, open_video
from prvr.media.encoders.colours import COLOUR_NAMES, colour_memberships
from prvr.worlds import (
    RENDERED_SIZES,
    SPLITS,
    RenderedWorld,
    matching_events,
    plan_world,
    render_world,
    shown_nowhere,
)
from prvr.worlds.rendered.shapes import SHAPES, paint_shape

TINY = replace(RENDERED_SIZES["tiny"], peak_share=1.0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", TINY)


def test_every_film_is_a_video_of_its_length(world: RenderedWorld) -> None:
    for split in SPLITS:
        for script in world.scripts[split]:
            with open_video(world.videos[script.video]) as video:
                assert (video.info.width, video.info.height) == (TINY.width, TINY.height)
                assert video.info.duration == pytest.approx(script.length, abs=0.3)


def test_the_same_seed_gives_the_same_bytes(world: RenderedWorld, tmp_path: Path) -> None:
    again = render_world(tmp_path / "again", TINY)
    assert again.queries == world.queries
    for name in ("train0000", "test0001"):
        assert again.videos[name].read_bytes() == world.videos[name].read_bytes()
    assert plan_world(tmp_path, replace(TINY, seed=1)).queries != world.queries


def test_a_thing_is_there_while_its_event_lasts_and_not_before(world: RenderedWorld) -> None:
    """Shares of the event's colour in the picture, in the middle of the event and where nothing happens."""
    for script in world.scripts["train"]:
        with open_video(world.videos[script.video]) as video:
            images = [frame.image for frame in video.frames(TINY.fps)]
        busy = [(e.start, e.end) for e in (*script.events, *(peak.event for peak in script.peaks))]
        free = next(t for t in np.arange(0, script.length, 0.125) if not any(a - 0.2 <= t <= b + 0.2 for a, b in busy))
        for event in script.events:
            kind = COLOUR_NAMES.index(event.colour)
            there = colour_memberships(images[round((event.start + event.end) / 2 * TINY.fps)])[..., kind].mean()
            assert there > colour_memberships(images[round(free * TINY.fps)])[..., kind].mean() + 0.005


def test_peaks_are_of_other_films_and_do_not_belong(world: RenderedWorld) -> None:
    peaks = [(script, peak) for split in SPLITS for script in world.scripts[split] for peak in script.peaks]
    assert peaks
    for script, peak in peaks:
        assert peak.mimics != script.video
        assert peak.event.end - peak.event.start <= TINY.peak_seconds[1] + 0.02
        assert all(peak.event.end <= e.start or peak.event.start >= e.end for e in script.events)
        assert (peak.event.colour, peak.event.shape) not in {(e.colour, e.shape) for e in script.events}


def test_sentences_and_positives(world: RenderedWorld) -> None:
    for split in SPLITS:
        assert world.queries[split]
        for query in world.queries[split]:
            assert query.event.colour in query.sentence
            assert world.positives(split, query)[0] == query.video
    facts = json.loads((world.folder / "world.json").read_text("utf-8"))
    assert facts["config"]["seed"] == 0
    assert len(facts["films"]["test"]) == TINY.test


def test_where_a_sentence_is_true_and_which_are_true_nowhere(world: RenderedWorld) -> None:
    scripts = world.scripts["test"]
    for query in world.queries["test"]:
        events = matching_events(scripts, query)
        assert list(events) == sorted(world.positives("test", query))
        assert query.event in events[query.video]
        assert all((e.colour, e.shape) == (query.event.colour, query.event.shape) for v in events.values() for e in v)
    assert shown_nowhere(scripts, world.queries["test"]) == []
    flash = next(peak.event for script in scripts for peak in script.peaks)
    seen = replace(world.queries["train"][0], event=flash)
    unseen = replace(seen, event=replace(flash, colour="no such colour"))
    assert shown_nowhere(scripts, [seen, unseen]) == [unseen]  # a flash shows it too


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.mp4").touch()
    with pytest.raises(MediaError, match="choose another folder"):
        render_world(tmp_path, TINY)
    assert (tmp_path / "holiday.mp4").exists()


def test_shapes_differ() -> None:
    drawn = [paint_shape(np.zeros((64, 64, 3), np.float32), shape, "white", 0.5, 0.5, 0.3) for shape in SHAPES]
    for i, first in enumerate(drawn):
        assert 0.02 < first.mean() / 255 < 0.5
        assert all(np.abs(first - second).mean() > 2 for second in drawn[i + 1 :])


@pytest.mark.parametrize("wrong", [{"train": 0}, {"events": (3, 2)}, {"seconds": (1.0, 2.0)}, {"motion_unsaid": 0.9}])
def test_impossible_worlds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError, match="need"):
        replace(TINY, **wrong)  # type: ignore[arg-type]
