"""Writes a proxy in the standard layout: OUT/proxy/TextData and OUT/proxy/FeatureData/symbolic."""

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

from prvr.data import DataError, feature_writer, require_space, show_progress, write_annotations
from prvr.files import whole_folder, write_whole
from prvr.media import TextEncoder
from prvr.worlds.proxies.config import NOISE_LEVELS, ProxyConfig
from prvr.worlds.proxies.embeddings import Embeddings, nearest_texts
from prvr.worlds.proxies.frames import FixedMap, Vectors, add_noise, compose_frames, damage_labels
from prvr.worlds.proxies.source import LabelScript, ProxySource

_COLLECTION = "proxy"
_FEATURE = "symbolic"
_TERMS = (
    "Made from annotations that may not be passed on: do not publish these files, the sentences in them or their "
    "embeddings. Results on them are not results on the dataset the annotations come from."
)


def write_proxy(
    out: str | Path,
    source: ProxySource,
    encoder: TextEncoder,
    config: ProxyConfig | None = None,
    *,
    embeddings: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Write ``out/proxy`` and return that folder.

    Args:
        out: the folder of the new collection.
        source: what annotators said; see ``read_charades`` and ``read_activitynet``.
        encoder: embeds labels and sentences.
        config: how annotations become frames.
        embeddings: where embeddings are kept for the next proxy; ``SOURCE-embeddings`` beside ``out`` by default.
        progress: whether to show a progress bar.
    """
    config, folder = config or ProxyConfig(), Path(out) / _COLLECTION
    if folder.exists():
        raise DataError(f"{folder} exists already; delete it, or choose another --out.")
    Path(out).mkdir(parents=True, exist_ok=True)
    scripts = [script for split in source.scripts.values() for script in split]
    rows = sum(script.length for script in scripts) * config.rate
    words = sum(len(query.sentence.split()) + 4 for split in source.annotations.values() for query in split)
    require_space(Path(out), int(2.2 * (rows * config.width + words * encoder.word_width)) + 2**20, "the proxy")
    store = Path(embeddings) if embeddings else Path(out).resolve().parent / f"{source.name}-embeddings"
    embedded = Embeddings.open(store, source, encoder, progress=progress)
    with whole_folder(folder) as beside:
        (beside / "TextData").mkdir()
        for split, queries in source.annotations.items():
            write_annotations(beside / "TextData", _COLLECTION, split, queries)
        _link_or_copy(embedded.words, beside / "TextData" / f"sentence_{_COLLECTION}_query_feat.hdf5")
        _write_frames(beside / "FeatureData" / _FEATURE, source, embedded, config, progress)
        about = {
            "source": source.name,
            "terms": _TERMS,
            "config": asdict(config),
            "noise per dimension, frame and video": NOISE_LEVELS[config.noise],
            "encoder": {"name": encoder.name, "weights": encoder.weights, "width": encoder.width},
            "videos": {split: len(scripts) for split, scripts in source.scripts.items()},
            "queries": {split: len(annotations) for split, annotations in source.annotations.items()},
            "notes": source.notes,
        }
        write_whole(beside / "proxy.json", json.dumps(about, indent=1, ensure_ascii=False))
    return folder


def _write_frames(folder: Path, source: ProxySource, embedded: Embeddings, config: ProxyConfig, progress: bool) -> None:
    clean = fitted_map(source, embedded.vectors, embedded.width, config)
    timed = {label.text for split in source.scripts.values() for script in split for label in script.events}
    near = nearest_texts({text: embedded.vectors[text] for text in sorted(timed)}, config.near)
    total = sum(map(len, source.scripts.values()))
    with feature_writer("hdf5", folder, config.width) as store:
        pairs = show_progress(_assigned_scripts(source, config), total=total, label="making frames", show=progress)
        for video, script in pairs:
            frames = script_frames(script, embedded.vectors, near.__getitem__, clean, config)
            store.add(video, frames.astype(np.float16))


def script_frames(
    script: LabelScript, vectors: Vectors, near: Callable[[str], list[str]], clean: FixedMap, config: ProxyConfig
) -> NDArray[np.float32]:
    """Frame features of one video, (n, W); they depend on the seed and on this video alone."""
    damaged = damage_labels(script, near, config, _generator(script, config, 2))
    states, shown = compose_frames(damaged, vectors, config, clean.inner.shape[0])
    frames = add_noise(clean(states)[shown], config, _generator(script, config, 3))
    if config.control == "shuffled-frames":
        frames = frames[_generator(script, config, 4).permutation(len(frames))]
    return frames


def fitted_map(source: ProxySource, vectors: Vectors, width: int, config: ProxyConfig) -> FixedMap:
    """The random map, scaled on the undamaged frames of the training videos."""
    composed = [compose_frames(script, vectors, config, width) for script in source.scripts["train"]]
    states = np.concatenate([states for states, _ in composed])
    counts = np.concatenate([np.bincount(shown, minlength=len(states)) for states, shown in composed])
    return FixedMap.draw(width, config).standardised(states, counts)


def _assigned_scripts(source: ProxySource, config: ProxyConfig) -> Iterator[tuple[str, LabelScript]]:
    """Every video id with the script whose frames it gets: its own, unless pairs are shuffled."""
    for number, (split, scripts) in enumerate(source.scripts.items()):
        assigned = list(scripts)
        if config.control == "shuffled-pairs" and split != "test":
            if len(scripts) < 2:
                raise DataError(f"the {split} split has {len(scripts)} video: pairs cannot be shuffled.")
            order = np.random.default_rng((config.seed, 5, number)).permutation(len(scripts))
            for row, other_row in zip(order, np.roll(order, -1), strict=True):  # one cycle: no video keeps its own
                assigned[row] = scripts[other_row]
        for script, other in zip(scripts, assigned, strict=True):
            yield script.video, other


def _generator(script: LabelScript, config: ProxyConfig, purpose: int) -> np.random.Generator:
    return np.random.default_rng((config.seed, purpose, zlib.crc32(script.video.encode())))


def _link_or_copy(file: Path, second: Path) -> None:
    """Hard-link a file; copy it if the file system has no hard links."""
    try:
        os.link(file, second)
    except OSError:
        shutil.copyfile(file, second)
