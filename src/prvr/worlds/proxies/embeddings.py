"""Sentence embeddings of a source: computed once, shared by all proxies that are written next to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from prvr.data import show_progress
from prvr.files import whole_folder, write_whole
from prvr.media import TextEncoder
from prvr.worlds.proxies.source import ProxySource

Array = NDArray[np.float32]
_BATCH = 256


@dataclass(frozen=True)
class Embeddings:
    """Vectors of the video side's texts, and the file of the queries' word features."""

    vectors: Mapping[str, Array]  # (D,) each, unit length
    words: Path  # HDF5, one (L, Dq) dataset per query id
    width: int

    @staticmethod
    def open(folder: Path, source: ProxySource, encoder: TextEncoder, *, progress: bool = True) -> Embeddings:
        """Read the embeddings in ``folder``; write them first unless it holds this encoder's of these texts."""
        texts = source.texts()
        about = {"encoder": encoder.name, "weights": encoder.weights, "texts": _digest(source, texts)}
        if _read_json(folder / "about.json") != about:
            with whole_folder(folder) as beside:
                np.save(beside / "vectors.npy", _vectors(texts, encoder, progress))
                _write_words(beside / "words.hdf5", source, encoder, progress)
                write_whole(beside / "about.json", json.dumps(about, indent=1))
        rows: Array = np.load(folder / "vectors.npy", allow_pickle=False)
        return Embeddings(dict(zip(texts, rows, strict=True)), folder / "words.hdf5", encoder.width)


def nearest_texts(vectors: Mapping[str, Array], count: int, block: int = 1024) -> dict[str, list[str]]:
    """For every text, the ``count`` others most like it, best first."""
    texts = list(vectors)
    count = min(count, len(texts) - 1)
    if count < 1:
        return {text: [] for text in texts}
    rows = np.stack([vectors[text] for text in texts])
    neighbours: dict[str, list[str]] = {}
    for first in range(0, len(texts), block):
        alike = rows[first : first + block] @ rows.T
        np.fill_diagonal(alike[:, first:], -np.inf)
        best = np.argpartition(-alike, count - 1, axis=1)[:, :count]
        order = np.take_along_axis(best, np.argsort(-np.take_along_axis(alike, best, 1), axis=1, kind="stable"), 1)
        neighbours |= {
            texts[first + row]: [texts[other] for other in others] for row, others in enumerate(order.tolist())
        }
    return neighbours


def _vectors(texts: list[str], encoder: TextEncoder, progress: bool) -> Array:
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # batches of one length need little padding
    parts = [order[first : first + _BATCH] for first in range(0, len(order), _BATCH)]
    vectors = np.empty((len(texts), encoder.width), np.float32)
    for rows in show_progress(parts, total=len(parts), label="embedding labels", show=progress):
        vectors[rows] = encoder.encode_texts([texts[row] for row in rows])
    return vectors


def _write_words(path: Path, source: ProxySource, encoder: TextEncoder, progress: bool) -> None:
    ids: dict[str, list[str]] = {}  # by sentence: some sources repeat a third of them
    for split in source.annotations.values():
        for query in split:
            ids.setdefault(query.sentence, []).append(query.id)
    sentences = sorted(ids, key=lambda sentence: (len(sentence), sentence))  # as above
    firsts = range(0, len(sentences), _BATCH)
    with h5py.File(path, "w", libver=("v110", "v110")) as store:
        for first in show_progress(firsts, total=len(firsts), label="embedding sentences", show=progress):
            batch = sentences[first : first + _BATCH]
            for sentence, words in zip(batch, encoder.encode_word_lists(batch), strict=True):
                for name in ids[sentence]:
                    store.create_dataset(name, data=words.astype(np.float16))


def _digest(source: ProxySource, texts: list[str]) -> str:
    sentences = [[query.id, query.sentence] for split in source.annotations.values() for query in split]
    return hashlib.sha256(json.dumps([texts, sentences]).encode()).hexdigest()


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
