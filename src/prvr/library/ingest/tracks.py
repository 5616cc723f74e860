"""From an encoder's vectors to the sections that are stored and searched.

A track is one way to look at a video: its pictures, or what is said in it. A long video is cut into sections, each a
gallery of its own with its own registers, so that memory and time stay bounded; a video scores as its best section.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.ingest.background import SENTENCES
from prvr.library.ingest.embedding import Embedding
from prvr.library.store.arrays import Section
from prvr.media.encoders.base import TextEncoder
from prvr.media.features import FeaturePart
from prvr.scoring import Gallery, Storage, score_parts

FRAMES, TEXT = "frames", "text"  # names of tracks
PAGE = 16  # tokens; small pages waste little on short videos, and cost nothing here


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of a video with the seconds each stands for."""

    vectors: NDArray[np.float32]  # (n, D)
    spans: NDArray[np.float64]  # (n, 2)


class Track:
    """Turns pieces into sections, and remembers how background sentences score on each."""

    def __init__(self, name: str, embedding: Embedding, storage: Storage):
        self.name, self.embedding, self.storage = name, embedding, storage

    @property
    def encoder(self) -> TextEncoder:
        return self.embedding.encoder

    @cached_property
    def bank(self) -> Tensor:
        """Background sentences as vectors (B, D); those of which nothing is understood stay zero."""
        return self.embedding.sentences(SENTENCES)

    def sections(self, pieces: Iterable[Piece]) -> Iterator[Section]:
        """Sections as soon as their frames are known; holds one section's frames at a time."""
        step, overlap = self.embedding.step, self.embedding.overlap
        kept: list[Piece] = []
        count, made = 0, False
        for piece in pieces:
            kept.append(piece)
            count += len(piece.vectors)
            while count >= step + overlap:
                whole = _joined(kept)
                yield self.section(_cut(whole, 0, step + overlap))
                kept, count, made = [_cut(whole, step, count)], count - step, True
        if count > (overlap if made else 0):
            yield self.section(_joined(kept))

    @torch.no_grad()
    def section(self, piece: Piece) -> Section:
        """One gallery of one, as arrays."""
        samples = torch.from_numpy(np.ascontiguousarray(piece.vectors, np.float32))
        if not bool(torch.isfinite(samples).all()):
            raise ValueError("the encoder gave numbers that are none (NaN or infinite)")
        embedding = self.embedding
        found = embedding.embed(samples)
        gallery = Gallery.of_tokens(embedding.backbone, embedding.trace, found.tokens, storage=self.storage, page=PAGE)
        arrays = gallery.arrays()
        if embedding.own_keys:
            arrays = {name: array for name, array in arrays.items() if not name.startswith("keys.")}
        scores = score_parts(self.bank, gallery, "torch")
        assert scores.trace is not None
        arrays["background"] = torch.stack([scores.base, scores.trace], -1).transpose(0, 1).contiguous()  # (1, B, 2)
        tokens = len(found.spans)
        first, last = found.spans[:, 0].numpy(), found.spans[:, 1].numpy() - 1
        spans = np.zeros((len(arrays["local.values"]) * PAGE, 2), np.float32)
        spans[:tokens] = np.stack([piece.spans[first, 0], piece.spans[last, 1]], 1)
        arrays["spans"] = torch.from_numpy(spans).view(-1, PAGE, 2)
        return Section(gallery.about, arrays, tokens)


def timed(parts: Iterable[FeaturePart], rate: float) -> Iterator[Piece]:
    """Samples at a rate, each standing until the next."""
    for part in parts:
        yield Piece(part.vectors, np.stack([part.times, part.times + 1 / rate], 1))


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(np.concatenate([p.vectors for p in pieces]), np.concatenate([p.spans for p in pieces]))


def _cut(piece: Piece, start: int, end: int) -> Piece:
    return Piece(piece.vectors[start:end], piece.spans[start:end])
