"""Cut encoded samples into the sections that are stored and searched.

A track is one side of a video: its pictures, or what is said in it. A long video is cut into sections, each with its
own registers, so that memory and time stay bounded. A video scores as its best section.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.library.ingest.embedding import Embedding
from prvr.library.ingest.sentences import BACKGROUND_SENTENCES
from prvr.library.store.arrays import Section
from prvr.media import Backend, FeaturePart, TextEncoder

if TYPE_CHECKING:
    from prvr.scoring import OneCoreThreads, Storage

FRAMES, TEXT = "frames", "text"  # names of tracks
PAGE_TOKENS = 16  # small pages waste little on short videos, and are not slower here


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of a video, with the start and end of each in seconds."""

    vectors: NDArray[np.float32]  # (n, D)
    spans: NDArray[np.float64]  # (n, 2)


class Track:
    """Turns pieces into sections, and stores with each how background sentences score on it."""

    def __init__(
        self, name: str, embedding: Embedding, storage: Storage, repeats: float = 0.0, decoder: Backend = "pyav"
    ):
        """
        Args:
            name: of the track.
            embedding: makes its tokens.
            storage: number type of its vectors.
            repeats: how much a frame may differ from the last encoded one and is not encoded again.
            decoder: what decodes videos for it.
        """
        self.name, self.embedding, self.storage = name, embedding, storage
        self.repeats, self.decoder = repeats, decoder

    @property
    def encoder(self) -> TextEncoder:
        return self.embedding.encoder

    @cached_property
    def background(self) -> NDArray[np.float32]:
        """Background sentences as vectors (B, D). A row is zero if nothing of its sentence is understood."""
        return self.embedding.sentences(BACKGROUND_SENTENCES)

    def sections(self, pieces: Iterable[Piece]) -> Iterator[Section]:
        """Yield each section as soon as its samples are there. Holds the samples of one section at a time."""
        step, overlap = self.embedding.step, self.embedding.overlap
        pieces_left: list[Piece] = []
        count, any_yielded = 0, False
        for piece in pieces:
            pieces_left.append(piece)
            count += len(piece.vectors)
            while count >= step + overlap:
                whole = _join(pieces_left)
                yield self.section(_cut(whole, 0, step + overlap))
                pieces_left, count, any_yielded = [_cut(whole, step, count)], count - step, True
        if count > (overlap if any_yielded else 0):
            yield self.section(_join(pieces_left))

    def section(self, piece: Piece) -> Section:
        """Encode one piece as the arrays of a gallery with one row."""
        return _single_core().executor(1).submit(self._section, piece).result()

    def _section(self, piece: Piece) -> Section:
        import torch  # a search does without it

        from prvr.scoring import Gallery, score_parts

        if not np.isfinite(piece.vectors).all():
            raise ValueError("the encoder returned NaN or infinity")
        embedding = self.embedding
        with torch.no_grad():
            embedded = embedding.embed(torch.from_numpy(np.ascontiguousarray(piece.vectors, np.float32)))
            gallery = Gallery.of_tokens(
                embedding.backbone, embedding.trace, embedded.tokens, storage=self.storage, page=PAGE_TOKENS
            )
            scores = score_parts(torch.from_numpy(self.background), gallery, "torch")
        assert scores.trace is not None
        arrays = {name: tensor.numpy() for name, tensor in gallery.arrays().items()}
        if embedding.own_keys:
            arrays = {name: array for name, array in arrays.items() if not name.startswith("keys.")}
        arrays["background"] = np.stack([scores.base.T.numpy(), scores.trace.T.numpy()], -1)  # (1, B, 2)
        tokens = len(embedded.spans)
        first, last = embedded.spans[:, 0].numpy(), embedded.spans[:, 1].numpy() - 1
        spans = np.zeros((len(arrays["local.values"]) * PAGE_TOKENS, 2), np.float32)
        spans[:tokens] = np.stack([piece.spans[first, 0], piece.spans[last, 1]], 1)
        arrays["spans"] = spans.reshape(-1, PAGE_TOKENS, 2)
        if embedding.witness is not None:
            arrays |= embedding.witness.arrays(embedded, len(arrays["spans"]), PAGE_TOKENS)
        return Section(gallery.about, arrays, tokens)


@cache
def _single_core() -> OneCoreThreads:
    """A thread in which torch uses one core.

    A section is many small products. Shared among cores that decode at the same time, they take ten times as long.
    """
    from prvr.scoring import OneCoreThreads

    return OneCoreThreads("prvr-sections")


def timed_pieces(parts: Iterable[FeaturePart], rate: float) -> Iterator[Piece]:
    """Pieces of samples at a steady rate. Each sample lasts until the next."""
    for part in parts:
        yield Piece(part.vectors, np.stack([part.times, part.times + 1 / rate], 1))


def _join(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(np.concatenate([p.vectors for p in pieces]), np.concatenate([p.spans for p in pieces]))


def _cut(piece: Piece, start: int, end: int) -> Piece:
    return Piece(piece.vectors[start:end], piece.spans[start:end])
