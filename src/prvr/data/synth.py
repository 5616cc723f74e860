"""A synthetic world in the standard file layout, for trying everything without downloading anything.

A video has a topic (a place) whose look pervades every frame, and a few timed events, each an action done to an
object and seen in the look of its topic. A query describes one event, in one of many wordings, sometimes leaving out
the object or the topic. Some videos also carry *unsupported peaks*: one to three frames that look like an event of
another topic, although nothing else in the video goes with them; ``world.json`` lists them all. Features come from
fixed random nonlinear maps, one for frames and one for words, so the two spaces are unrelated until something learns
to relate them.

What it can show: that code trains, ranks above chance and finds planted moments; that a change does what it claims
(a peak that loses its rank, a corruption that hurts); how methods behave as noise, gallery or wording change.
What it cannot show: any number comparable with a published one; anything about vision or language, whose errors have
another shape; which of two methods is better on real data. The shape of the noise alone can reverse an order
(``frame_noise_memory``), so vary it before believing a comparison. That a peak does not count as a match is this
world's definition, and was made to study peaks: not evidence of how common they are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import h5py
import numpy as np

from prvr.data.annotations import Annotation, write_annotations
from prvr.data.captions import Moment
from prvr.data.errors import DataError
from prvr.data.progress import track
from prvr.data.synth_scripts import Query, Script, all_positives, plant_peaks, write_queries, write_scripts
from prvr.data.synth_senses import Ear, Eye
from prvr.data.synth_store import require_space, writer
from prvr.data.synth_words import Vocabulary

COLLECTION = "synth"
FEATURE = "synth"
FRAMES_PER_SECOND = 2.0
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class SynthConfig:
    """The numbers of a world. Strengths and noises are vector lengths in a latent space where a concept is 1 long.

    The defaults were chosen so that a small two-tower model lands between chance and saturation with any pooling.
    """

    seed: int = 0
    """Same seed and numbers, same files."""
    train: int = 800
    """Videos to train on."""
    val: int = 100
    """Videos to choose by."""
    test: int = 400
    """Videos to report on."""
    queries: tuple[int, int] = (1, 4)
    """Fewest and most queries per video (never more than it has events)."""
    events: tuple[int, int] = (3, 5)
    """Fewest and most events per video."""
    frames: tuple[int, int] = (40, 160)
    """Fewest and most frames per video, at two frames per second."""
    visual_width: int = 64
    """Width of frame features."""
    query_width: int = 64
    """Width of word features."""
    latent: int = 48
    """Width of the hidden space in which the world is composed."""
    topics: int = 12
    """Places."""
    actions: int = 20
    """Things one can do."""
    objects: int = 24
    """Things one can do it to."""
    habit: float = 3.0
    """How evenly a topic uses all actions and objects (small: a few favourites each)."""
    object_unsaid: float = 0.15
    """Share of queries that leave out the object."""
    topic_unsaid: float = 0.3
    """Share of queries that leave out the topic."""
    topic_strength: float = 1.0
    """How strongly a topic shows in every frame."""
    look: float = 0.5
    """How much a topic changes the look of what happens in it."""
    event_strength: float = 2.0
    """How strongly an event shows in its frames."""
    event_style: float = 0.3
    """How different the same event looks each time."""
    video_style: float = 0.6
    """How different videos of one topic look throughout."""
    frame_noise: float = 0.6
    """Noise per frame."""
    frame_noise_memory: float = 0.8
    """Correlation of that noise from one frame to the next (0: independent)."""
    bend: float = 0.35
    """How curved the random maps are."""
    synonym_distance: float = 0.3
    """How far apart the two words for one thing are."""
    context: float = 0.4
    """How much of its sentence a word's state carries."""
    word_noise: float = 0.3
    """Noise per word."""
    unsupported_share: float = 0.3
    """Share of videos with unsupported peaks."""
    peaks: int = 2
    """Most peaks in such a video."""
    peak_frames: tuple[int, int] = (1, 3)
    """Fewest and most frames of a peak."""

    def __post_init__(self) -> None:
        for name in ("queries", "events", "frames", "peak_frames"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise DataError(f"a world needs 1 ≤ fewest ≤ most {name}, not {low} and {high}.")
        counts = ("train", "val", "test", "visual_width", "query_width", "latent", "actions", "objects", "peaks")
        small = [name for name in counts if getattr(self, name) < 1]
        if small or self.topics < 2 or self.frames[0] < 8 or self.actions * self.objects < self.events[1]:
            raise DataError(
                f"too small a world ({', '.join(small) or 'topics, frames, actions or objects'}): it needs at least "
                "two topics, 8 frames per video, one of everything else, and as many action–object pairs as events."
            )
        if not 0 <= self.frame_noise_memory < 1 or self.object_unsaid + self.topic_unsaid > 1:
            raise DataError("a world needs 0 ≤ frame_noise_memory < 1, and object_unsaid + topic_unsaid ≤ 1.")


SIZES: dict[str, SynthConfig] = {
    "tiny": SynthConfig(
        train=40, val=16, test=16, frames=(16, 48), visual_width=24, query_width=20, topics=6, actions=8, objects=8
    ),
    "demo": SynthConfig(),
    # The gallery and feature widths of a Charades-like benchmark. Its noise was chosen once, by the base score alone:
    # with less of it a full-size DreamPRVR finds a correct video first 97 times in 100, and nothing is left to compare.
    "full": SynthConfig(
        train=1536,
        val=300,
        test=1334,
        visual_width=1024,
        query_width=1024,
        topics=24,
        actions=32,
        objects=40,
        event_strength=1.0,
        frame_noise=1.0,
        video_style=1.0,
    ),
}


def write_world(
    root: str | Path,
    config: SynthConfig = SIZES["demo"],
    *,
    store: Literal["hdf5", "bigfile"] = "hdf5",
    progress: bool = True,
) -> Path:
    """Write a world under ``root/synth`` and return that folder, which appears there when it is complete."""
    final, folder = Path(root) / COLLECTION, Path(root) / f".{COLLECTION}-unfinished"
    if final.exists():
        raise DataError(f"{final} is there already; delete it, or choose another folder.")
    shutil.rmtree(folder, ignore_errors=True)
    Path(root).mkdir(parents=True, exist_ok=True)
    _require_space(Path(root), config)
    text = folder / "TextData"
    text.mkdir(parents=True)
    vocabulary = Vocabulary.of(config.actions, config.objects, config.topics)
    eye, ear = Eye.open(config), Ear.open(config, vocabulary)
    all_scripts: list[tuple[int, Script]] = []
    query_file = text / f"roberta_{COLLECTION}_query_feat.hdf5"
    with h5py.File(query_file, "w", libver=("v110", "v110")) as words:
        for number, split in enumerate(SPLITS):
            rng = np.random.default_rng((config.seed, 10, number))
            scripts = write_scripts(config, split, getattr(config, split), rng)
            queries = write_queries(config, scripts, vocabulary, rng)
            scripts = plant_peaks(config, scripts, queries, rng)
            all_scripts += [(number, script) for script in scripts]
            write_annotations(text, COLLECTION, split, _annotations(scripts, queries))
            for query in queries:
                words.create_dataset(query.id, data=ear.hear(query.sentence, rng))
    with writer(store, folder / "FeatureData" / FEATURE, config.visual_width) as videos:
        seen = track(all_scripts, total=len(all_scripts), label="drawing synthetic videos", show=progress)
        for index, (number, script) in enumerate(seen):
            # A generator per video: its features depend on its own script only.
            videos.add(script.video, eye.see(script, np.random.default_rng((config.seed, 20, number, index))))
    _write_world_file(folder / "world.json", config, vocabulary, [script for _, script in all_scripts])
    return folder.rename(final)


def _require_space(root: Path, config: SynthConfig) -> None:
    """Refuse before writing: the HDF5 library does not survive a disk that fills up under it."""
    videos = config.train + config.val + config.test
    frames, queries = sum(config.frames) / 2 * config.visual_width, sum(config.queries) / 2 * 12 * config.query_width
    require_space(root, int(4.4 * videos * (frames + queries)) + 2**20, "the world")


def _annotations(scripts: Sequence[Script], queries: Sequence[Query]) -> list[Annotation]:
    """What is known about the queries of one split."""
    seconds = {script.video: script.frames / FRAMES_PER_SECOND for script in scripts}
    return [
        Annotation(
            id=query.id,
            sentence=query.sentence,
            moment=Moment(
                query.video,
                query.event.start / FRAMES_PER_SECOND,
                query.event.end / FRAMES_PER_SECOND,
                seconds[query.video],
            ),
            positives=videos,
        )
        for query, videos in zip(queries, all_positives(scripts, queries), strict=True)
    ]


def _write_world_file(path: Path, config: SynthConfig, vocabulary: Vocabulary, scripts: Sequence[Script]) -> None:
    peaks = [
        {
            "video": script.video,
            "start_frame": peak.looks_like.start,
            "end_frame": peak.looks_like.end,
            "looks_like": {
                "topic": vocabulary.topics[peak.looks_like.topic][0],
                "action": vocabulary.actions[peak.looks_like.action][0],
                "object": vocabulary.objects[peak.looks_like.thing][0],
            },
            "mimics_video": peak.mimics,
        }
        for script in scripts
        for peak in script.peaks
    ]
    world = {"config": asdict(config), "frames_per_second": FRAMES_PER_SECOND, "unsupported_peaks": peaks}
    path.write_text(json.dumps(world, indent=1), encoding="utf-8")
