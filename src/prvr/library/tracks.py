"""From an encoder's vectors to the sections that are stored and searched.

A track is one way to look at a video: its pictures, or what is said in it. A long video is cut into sections, each a
gallery of its own with its own anchors, so that memory and time stay bounded; a video scores as its best section does.
Fixed windows come out as if nothing had been cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.backbones import build
from prvr.backbones.frozen import Frozen, FrozenConfig
from prvr.library.background import SENTENCES
from prvr.library.settings import LibrarySettings
from prvr.library.shards import Section
from prvr.media.encoders.base import TextEncoder
from prvr.media.features import FeaturePart
from prvr.scoring import Gallery
from prvr.scoring.engines import score_parts
from prvr.scoring.storage import Storage
from prvr.trace import Trace

FRAMES, TEXT = "frames", "text"  # names of tracks
SECTION = 4096  # frames: over an hour at one per second
PAGE = 16  # tokens; small pages waste little on short videos, and cost nothing here


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of a video with the seconds each stands for."""

    vectors: NDArray[np.float32]  # (n, D)
    spans: NDArray[np.float64]  # (n, 2)


class Track:
    """Turns pieces into sections, and remembers how background sentences score on each."""

    def __init__(self, name: str, encoder: TextEncoder, backbone: Frozen, storage: Storage):
        self.name, self.encoder, self.backbone, self.storage = name, encoder, backbone, storage
        self.trace = Trace(encoder.width).requires_grad_(False)

    @staticmethod
    def of_frames(encoder: TextEncoder, settings: LibrarySettings) -> Track:
        window, stride = (max(1, round(seconds * settings.rate)) for seconds in (settings.window, settings.stride))
        backbone = _frozen(encoder.width, local=settings.local, window=window, stride=stride)
        return Track(FRAMES, encoder, backbone, settings.storage)

    @staticmethod
    def of_text(encoder: TextEncoder, settings: LibrarySettings) -> Track:
        """Lines of subtitles, each a token of its own."""
        return Track(TEXT, encoder, _frozen(encoder.width, local="frames"), settings.storage)

    @property
    def overlap(self) -> int:
        """Frames that neighbouring sections share, so that no window is cut."""
        config = self.backbone.config
        return max(0, config.window - config.stride) if config.local == "windows" else 0

    @property
    def step(self) -> int:
        """Frames from one section to the next."""
        stride = self.backbone.config.stride
        return max(stride, SECTION // stride * stride) if self.backbone.config.local == "windows" else SECTION

    @cached_property
    def bank(self) -> Tensor:
        """Background sentences as vectors (B, D); those the encoder understands nothing of stay zero."""
        return torch.from_numpy(self.encoder.encode_texts(SENTENCES))

    def sections(self, pieces: Iterable[Piece]) -> Iterator[Section]:
        """Sections as soon as their frames are known; holds one section's frames at a time."""
        kept: list[Piece] = []
        count, made = 0, False
        for piece in pieces:
            kept.append(piece)
            count += len(piece.vectors)
            while count >= self.step + self.overlap:
                whole = _joined(kept)
                yield self.section(_cut(whole, 0, self.step + self.overlap))
                kept, count, made = [_cut(whole, self.step, count)], count - self.step, True
        if count > (self.overlap if made else 0):
            yield self.section(_joined(kept))

    @torch.no_grad()
    def section(self, piece: Piece) -> Section:
        """One gallery of one, as arrays."""
        vectors = torch.from_numpy(np.ascontiguousarray(piece.vectors, np.float32))
        if not bool(torch.isfinite(vectors).all()):
            raise ValueError("the encoder gave numbers that are none (NaN or infinite)")
        moments = self.backbone.moments(vectors)
        real = moments.vectors.square().sum(1) > 0  # a zero token says nothing, unless there is no other
        if bool(real.any()):
            moments = type(moments)(moments.vectors[real], moments.spans[real])
        gallery = Gallery.of_tokens(
            self.backbone, self.trace, self.backbone.join([moments]), storage=self.storage, page=PAGE
        )
        arrays = gallery.arrays()
        if self.backbone.config.local != "moments":  # unit tokens without projections are their own keys
            arrays = {name: array for name, array in arrays.items() if not name.startswith("keys.")}
        scores = score_parts(self.bank, gallery, "torch")
        assert scores.trace is not None
        arrays["background"] = torch.stack([scores.base, scores.trace], -1).transpose(0, 1).contiguous()  # (1, B, 2)
        tokens = len(moments.spans)
        first, last = moments.spans[:, 0].numpy(), moments.spans[:, 1].numpy() - 1
        spans = np.zeros((len(arrays["local.values"]) * PAGE, 2), np.float32)
        spans[:tokens] = np.stack([piece.spans[first, 0], piece.spans[last, 1]], 1)
        arrays["spans"] = torch.from_numpy(spans).view(-1, PAGE, 2)
        return Section(gallery.about, arrays, tokens)


def _frozen(width: int, **config: object) -> Frozen:
    backbone = build("frozen", FrozenConfig(visual_width=width, query_width=width, **config))  # type: ignore[arg-type]
    assert isinstance(backbone, Frozen)
    return backbone


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
