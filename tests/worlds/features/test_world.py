"""A feature world: the same files for the same seed, and facts that hold together."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from prvr.data import DataError, Dataset, open_feature_store
from prvr.worlds import FEATURE_SIZES, FeatureWorldConfig, write_feature_world
from prvr.worlds.features.vocabulary import Vocabulary
from prvr.worlds.features.world import draw_feature_split
from prvr.worlds.script import matching_videos

TINY = FEATURE_SIZES["tiny"]


def files_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and ".prvr-cache" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_same_seed_writes_the_same_bytes(world: Path, tmp_path: Path) -> None:
    assert files_of(write_feature_world(tmp_path, TINY)) == files_of(world / "synth")
    assert files_of(write_feature_world(tmp_path / "other", replace(TINY, seed=1))) != files_of(world / "synth")


def test_both_stores_hold_the_same_features(world: Path, tmp_path: Path) -> None:
    folder = write_feature_world(tmp_path, TINY, store="bigfile")
    with (
        open_feature_store(folder / "FeatureData" / "synth") as big,
        open_feature_store(world / "synth" / "FeatureData" / "synth") as h5,
    ):
        assert set(big.ids) == set(h5.ids)
        assert all(np.array_equal(big.read(name), h5.read(name)) for name in big.ids)


def test_every_split_loads(world: Path) -> None:
    for split in ("train", "val", "test"):
        data = Dataset.load(world, "synth", split)
        assert len(data) == getattr(TINY, split)
        assert (data.visual_width, data.query_width) == (TINY.visual_width, TINY.query_width)


def test_an_interrupted_world_is_started_again(tmp_path: Path) -> None:
    (tmp_path / ".synth-unfinished" / "TextData").mkdir(parents=True)
    folder = write_feature_world(tmp_path, TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["synth"]
    with pytest.raises(DataError, match="exists already"):
        write_feature_world(tmp_path, TINY)
    assert folder.is_dir()


def test_facts_hold_together() -> None:
    config = replace(TINY, unsupported_share=1.0, train=200)
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary.of(config.actions, config.objects, config.topics)
    scripts, queries = draw_feature_split(config, "train", vocabulary, rng)
    by_video = {script.video: script for script in scripts}
    for script in scripts:
        events = script.events
        assert all(0 <= event.start < event.end <= script.length for event in events)
        assert all(left.end <= right.start for left, right in pairwise(events))
        taken = {frame for event in events for frame in range(event.start, event.end)}
        for peak in script.peaks:
            look = peak.event
            assert look.topic != script.setting
            assert (look.action, look.object) not in {(event.action, event.object) for event in events}
            assert 1 <= look.end - look.start <= 3
            assert look.end <= script.length
            assert taken.isdisjoint(range(look.start, look.end))
            assert any((e.action, e.object) == (look.action, look.object) for e in by_video[peak.mimics].events)
    assert sum(bool(script.peaks) for script in scripts) > 0.6 * len(scripts)
    for query, videos in zip(queries, matching_videos(scripts, queries), strict=True):
        assert videos[0] == query.video
        for script in scripts:
            matches = any(
                all(getattr(event, name) == getattr(query.event, name) for name in query.mentions)
                for event in script.events
            )
            assert matches == (script.video in videos)


def test_the_world_file_lists_the_peaks(world: Path) -> None:
    facts = json.loads((world / "synth" / "world.json").read_text())
    assert facts["config"]["seed"] == TINY.seed
    assert facts["unsupported_peaks"]
    for peak in facts["unsupported_peaks"]:
        assert peak["video"] != peak["mimics_video"]
        assert peak["start_frame"] < peak["end_frame"]
        assert set(peak["looks_like"]) == {"topic", "action", "object"}


def test_moments_lie_within_their_videos(world: Path) -> None:
    data = Dataset.load(world, "synth", "test")
    assert data.moments is not None
    for row, query in zip(data.query_video.tolist(), data.query_ids, strict=True):
        moment = data.moments[query]
        assert moment.video == data.video_ids[row]
        assert 0 <= moment.start < moment.end <= moment.duration
        assert moment.duration * 2 == data.tables.frame_count[row]


def test_words_for_one_thing_are_closer_than_others(world: Path) -> None:
    """Sentences about one event in other words must be nearer than sentences about other events, on average."""
    data = Dataset.load(world, "synth", "train")
    means = [data.query_batch([row]).tokens[0].mean(0) for row in range(len(data.captions))]
    words = [set(caption.sentence.split()) for caption in data.captions]
    near, far = [], []
    for i in range(60):
        for j in range(i):
            cosine = float((means[i] @ means[j]) / (means[i].norm() * means[j].norm()))
            shared = len(words[i] & words[j]) / min(len(words[i]), len(words[j]))
            (near if shared > 0.5 else far).append(cosine)
    assert np.mean(near) > np.mean(far)


@pytest.mark.parametrize(
    "wrong",
    [
        {"frames": (9, 8)},
        {"topics": 1},
        {"train": 0},
        {"frame_noise_memory": 1.0},
        {"actions": 1, "objects": 2},
        {"seed": -1},
        {"habit": 0.0},
        {"frame_noise": float("inf")},
    ],
)
def test_impossible_worlds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError, match="world"):
        FeatureWorldConfig(**wrong)  # type: ignore[arg-type]
