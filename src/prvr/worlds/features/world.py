"""A feature world in the standard file layout: try everything without downloading anything.

A video has a topic (a place) that shows in every frame, and a few timed events. An event is an action done to an
object, seen in the look of its topic. A query describes one event, in one of many wordings, and sometimes leaves out
the object or the topic. Some videos also carry *unsupported peaks*: one to three frames that look like an event of
another topic, although nothing else in the video goes with them; ``world.json`` lists them all. Features come from
fixed random nonlinear maps, one for frames and one for words, so the two spaces are unrelated until something learns
to relate them.

What it can show: that code trains, ranks above chance and finds planted moments; that a change does what it claims
(a peak that loses its rank, a corruption that hurts); how methods behave as noise, gallery or wording change.
What it cannot show: any number comparable with a published one; anything about vision or language, whose errors have
another shape; which of two methods is better on real data. The shape of the noise alone can reverse an order
(``frame_noise_memory``), so vary it before believing a comparison. That a peak does not count as a match is this
world's definition. It was made to study peaks and is no evidence of how common they are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import h5py
import numpy as np

from prvr.data import DataError, feature_writer, require_space, show_progress, write_annotations
from prvr.worlds.features.config import FEATURE_SIZES, FeatureWorldConfig
from prvr.worlds.features.events import (
    ACTIVITY_ATTRIBUTES,
    Activity,
    FeatureScript,
    draw_feature_peaks,
    draw_feature_scripts,
)
from prvr.worlds.features.vectors import FrameMaker, WordMaker
from prvr.worlds.features.vocabulary import Vocabulary
from prvr.worlds.script import SPLITS, Query, annotate, draw_queries, matching_videos, plant_peaks

_COLLECTION = "synth"
_FEATURE = "synth"
FRAMES_PER_SECOND = 2.0


def write_feature_world(
    root: str | Path,
    config: FeatureWorldConfig = FEATURE_SIZES["demo"],
    *,
    store: Literal["hdf5", "bigfile"] = "hdf5",
    progress: bool = True,
) -> Path:
    """Write a world under ``root/synth`` and return that folder, which appears there when it is complete."""
    final, folder = Path(root) / _COLLECTION, Path(root) / f".{_COLLECTION}-unfinished"
    if final.exists():
        raise DataError(f"{final} exists already; delete it, or choose another folder.")
    shutil.rmtree(folder, ignore_errors=True)
    Path(root).mkdir(parents=True, exist_ok=True)
    _require_space(Path(root), config)
    text = folder / "TextData"
    text.mkdir(parents=True)
    vocabulary = Vocabulary.of(config.actions, config.objects, config.topics)
    frame_maker, word_maker = FrameMaker.draw(config), WordMaker.draw(config, vocabulary)
    all_scripts: list[tuple[int, FeatureScript]] = []
    query_file = text / f"roberta_{_COLLECTION}_query_feat.hdf5"
    with h5py.File(query_file, "w", libver=("v110", "v110")) as words:
        for number, split in enumerate(SPLITS):
            rng = np.random.default_rng((config.seed, 10, number))
            scripts, queries = draw_feature_split(config, split, vocabulary, rng)
            all_scripts += [(number, script) for script in scripts]
            annotations = annotate(scripts, queries, matching_videos(scripts, queries), rate=FRAMES_PER_SECOND)
            write_annotations(text, _COLLECTION, split, annotations)
            for query in queries:
                words.create_dataset(query.id, data=word_maker.features(query.sentence, rng))
    with feature_writer(store, folder / "FeatureData" / _FEATURE, config.visual_width) as videos:
        tracked = show_progress(all_scripts, total=len(all_scripts), label="drawing synthetic videos", show=progress)
        for index, (number, script) in enumerate(tracked):
            # A generator per video: its features depend on its own script only.
            rng = np.random.default_rng((config.seed, 20, number, index))
            videos.add(script.video, frame_maker.features(script, rng))
    _write_world_file(folder / "world.json", config, vocabulary, [script for _, script in all_scripts])
    return folder.rename(final)


def draw_feature_split(
    config: FeatureWorldConfig, split: str, vocabulary: Vocabulary, rng: np.random.Generator
) -> tuple[list[FeatureScript], list[Query[Activity]]]:
    """The scripts of a split, peaks included, and the queries about them."""
    scripts = draw_feature_scripts(config, split, getattr(config, split), rng)
    left_out = {"object": config.object_unsaid, "topic": config.topic_unsaid}
    queries = draw_queries(scripts, config.queries, ACTIVITY_ATTRIBUTES, left_out, vocabulary.sentence, rng)
    scripts = plant_peaks(
        scripts, config.unsupported_share, lambda script: draw_feature_peaks(script, queries, config, rng), rng
    )
    return scripts, queries


def read_feature_scripts(folder: str | Path) -> dict[str, list[FeatureScript]]:
    """What happens in every video of a written world, by split: all its events, asked for or not.

    Args:
        folder: what ``write_feature_world`` returned.
    """
    config = _read_config(Path(folder))
    vocabulary = Vocabulary.of(config.actions, config.objects, config.topics)
    return {
        split: draw_feature_split(config, split, vocabulary, np.random.default_rng((config.seed, 10, number)))[0]
        for number, split in enumerate(SPLITS)
    }


def read_feature_vocabulary(folder: str | Path) -> Vocabulary:
    """The words of a written world, and what they name; ``folder`` is what ``write_feature_world`` returned."""
    config = _read_config(Path(folder))
    return Vocabulary.of(config.actions, config.objects, config.topics)


def _read_config(folder: Path) -> FeatureWorldConfig:
    about = json.loads((folder / "world.json").read_text("utf-8"))["config"]
    pairs = {name: tuple(value) for name, value in about.items() if isinstance(value, list)}
    return FeatureWorldConfig(**about | pairs)


def _require_space(root: Path, config: FeatureWorldConfig) -> None:
    """Refuse before writing: the HDF5 library does not survive a disk that fills up under it."""
    videos = config.train + config.val + config.test
    frames, queries = sum(config.frames) / 2 * config.visual_width, sum(config.queries) / 2 * 12 * config.query_width
    require_space(root, int(4.4 * videos * (frames + queries)) + 2**20, "the world")


def _write_world_file(
    path: Path, config: FeatureWorldConfig, vocabulary: Vocabulary, scripts: Sequence[FeatureScript]
) -> None:
    peaks = [
        {
            "video": script.video,
            "start_frame": peak.event.start,
            "end_frame": peak.event.end,
            "looks_like": {
                "topic": vocabulary.topics[peak.event.topic][0],
                "action": vocabulary.actions[peak.event.action][0],
                "object": vocabulary.objects[peak.event.object][0],
            },
            "mimics_video": peak.mimics,
        }
        for script in scripts
        for peak in script.peaks
    ]
    world = {"config": asdict(config), "frames_per_second": FRAMES_PER_SECOND, "unsupported_peaks": peaks}
    path.write_text(json.dumps(world, indent=1), encoding="utf-8")
