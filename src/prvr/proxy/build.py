"""Writing a proxy in the standard layout: OUT/proxy/TextData and OUT/proxy/FeatureData/symbolic."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.data.annotations import write_annotations
from prvr.data.errors import DataError
from prvr.data.progress import track
from prvr.data.synth_store import require_space, writer
from prvr.files import whole_folder, write_whole
from prvr.media.encoders import TextEncoder
from prvr.proxy.config import NOISE, ProxyConfig
from prvr.proxy.embeddings import Embeddings, nearest
from prvr.proxy.frames import FixedMap, Vectors, composed, damaged, noisy
from prvr.proxy.stories import Source, Story

COLLECTION = "proxy"
FEATURE = "symbolic"
TERMS = (
    "Made from annotations that may not be passed on: do not publish these files, the sentences in them or their "
    "embeddings. Results on them are not results on the dataset the annotations come from."
)


def write_proxy(
    out: str | Path,
    source: Source,
    encoder: TextEncoder,
    config: ProxyConfig | None = None,
    *,
    embeddings: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Write ``out/proxy`` and return it; embeddings stay in ``SOURCE-embeddings`` beside ``out`` for the next one."""
    config, folder = config or ProxyConfig(), Path(out) / COLLECTION
    if folder.exists():
        raise DataError(f"{folder} is there already; delete it, or choose another --out.")
    Path(out).mkdir(parents=True, exist_ok=True)
    stories = [story for split in source.stories.values() for story in split]
    rows = sum(story.seconds for story in stories) * config.rate
    words = sum(len(query.sentence.split()) + 4 for split in source.queries.values() for query in split)
    require_space(Path(out), int(2.2 * (rows * config.width + words * encoder.word_width)) + 2**20, "the proxy")
    kept = Path(embeddings) if embeddings else Path(out).resolve().parent / f"{source.name}-embeddings"
    known = Embeddings.open(kept, source, encoder, progress=progress)
    with whole_folder(folder) as beside:
        (beside / "TextData").mkdir()
        for split, queries in source.queries.items():
            write_annotations(beside / "TextData", COLLECTION, split, queries)
        _linked(known.words, beside / "TextData" / f"sentence_{COLLECTION}_query_feat.hdf5")
        _write_frames(beside / "FeatureData" / FEATURE, source, known, config, progress)
        about = {
            "source": source.name,
            "terms": TERMS,
            "config": asdict(config),
            "noise per dimension, frame and video": NOISE[config.noise],
            "encoder": {"name": encoder.name, "weights": encoder.weights, "width": encoder.width},
            "videos": {split: len(found) for split, found in source.stories.items()},
            "queries": {split: len(found) for split, found in source.queries.items()},
            "notes": source.notes,
        }
        write_whole(beside / "proxy.json", json.dumps(about, indent=1, ensure_ascii=False))
    return folder


def _write_frames(folder: Path, source: Source, known: Embeddings, config: ProxyConfig, progress: bool) -> None:
    clean = fitted_map(source, known.vectors, known.width, config)
    timed = {label.text for split in source.stories.values() for story in split for label in story.labels}
    alike = nearest({text: known.vectors[text] for text in sorted(timed)}, config.near)
    total = sum(map(len, source.stories.values()))
    with writer("hdf5", folder, config.width) as store:
        assigned = track(_assigned(source, config), total=total, label="making frames", show=progress)
        for video, story in assigned:
            frames = story_frames(story, known.vectors, alike.__getitem__, clean, config)
            store.add(video, frames.astype(np.float16))


def story_frames(
    story: Story, vectors: Vectors, near: Callable[[str], list[str]], clean: FixedMap, config: ProxyConfig
) -> NDArray[np.float32]:
    """Frame features of one video, (n, W); they depend on the seed and on this video alone."""
    told = damaged(story, near, config, _generator(story, config, 2))
    seen, shown = composed(told, vectors, config, clean.inner.shape[0])
    frames = noisy(clean(seen)[shown], config, _generator(story, config, 3))
    if config.control == "shuffled-frames":
        frames = frames[_generator(story, config, 4).permutation(len(frames))]
    return frames


def fitted_map(source: Source, vectors: Vectors, width: int, config: ProxyConfig) -> FixedMap:
    """The random map, scaled on the undamaged frames of the training videos."""
    found = [composed(story, vectors, config, width) for story in source.stories["train"]]
    seen = np.concatenate([moments for moments, _ in found])
    counts = np.concatenate([np.bincount(shown, minlength=len(moments)) for moments, shown in found])
    return FixedMap.drawn(width, config).standardised(seen, counts)


def _assigned(source: Source, config: ProxyConfig) -> Iterator[tuple[str, Story]]:
    """Every video id with the story whose frames it gets: its own, unless pairs are shuffled."""
    for number, (split, stories) in enumerate(source.stories.items()):
        tellers = list(stories)
        if config.control == "shuffled-pairs" and split != "test":
            if len(stories) < 2:
                raise DataError(f"the {split} split has {len(stories)} video: pairs cannot be shuffled.")
            order = np.random.default_rng((config.seed, 5, number)).permutation(len(stories))
            for here, there in zip(order, np.roll(order, -1), strict=True):  # one cycle: nobody keeps their own
                tellers[here] = stories[there]
        for story, teller in zip(stories, tellers, strict=True):
            yield story.video, teller


def _generator(story: Story, config: ProxyConfig, purpose: int) -> np.random.Generator:
    return np.random.default_rng((config.seed, purpose, zlib.crc32(story.video.encode())))


def _linked(file: Path, place: Path) -> None:
    """The same file under a second name; a copy where the file system has no such links."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
