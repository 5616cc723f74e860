"""``frozen``: no training at all. Frames and sentences come from an image–text encoder, already in one space.

Local tokens are adaptive, propagated moments (``blocks.adaptive``), plain frames, or fixed windows. Anchors pooled from
them take the place of registers, so that TRACE can verify a peak. The cost is linear in the length of a video.

    backbone = build("frozen", visual_width=512, query_width=512)
    tokens = backbone.encode_videos(frames, frame_mask, clips)      # frames (V, M, 512) at a steady rate
    tokens.seconds(rate=1.0)                                         # (V, m, 2): when each token begins and ends
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.base import Backbone, BackboneConfig, Encoded
from prvr.backbones.blocks.adaptive import Moments, adaptive_moments, fixed_windows, single_frames
from prvr.backbones.registry import register
from prvr.backbones.scores import TokenSet
from prvr.errors import UserError
from prvr.tokens import TrainBatch, VideoTokens, as_mask
from prvr.trace import with_anchors


class UnusableSettings(UserError, ValueError):
    """Settings that fit neither each other nor the features. Also a ``ValueError``, as for other methods."""


@dataclass(frozen=True)
class FrozenConfig(BackboneConfig):
    """Defaults: the published training-free recipe's numbers."""

    local: Literal["moments", "frames", "windows"] = "moments"
    """what the local tokens are"""
    propagation: float = 0.7
    """share β of a segment's vector that comes from other segments"""
    chapter: int = 1024
    """frames of a long video that are processed together"""
    overlap: int = 128
    """frames of its neighbours that a chapter includes"""
    window: int = 8
    """frames of a fixed window"""
    stride: int = 4
    """frames from one fixed window to the next"""
    anchors: str = "hybrid"
    """what takes the place of registers: temporal-K, global-K, hybrid, or none"""

    def __post_init__(self) -> None:
        if self.visual_width != self.query_width:
            raise UnusableSettings(
                "a method without training needs frames and sentences in one space, not "
                f"{self.visual_width} and {self.query_width} wide"
            )
        if not 0 <= self.propagation < 1:
            raise UnusableSettings(f"propagation is a share from 0 to below 1, not {self.propagation}")
        if min(self.chapter, self.window, self.stride) < 1 or self.overlap < 0:
            raise UnusableSettings("chapter, window and stride are at least 1 frame, overlap at least 0")


@dataclass(frozen=True)
class FrozenTokens(VideoTokens):
    """Video tokens, with the frames that each one covers."""

    spans: Tensor | None = None  # (V, m, 2) first frame and end (excluded); zero on padding

    def seconds(self, rate: float) -> Tensor:
        """Start and end of each token for frames at ``rate`` per second, (V, m, 2)."""
        assert self.spans is not None
        return self.spans.double() / rate

    def padded(self, frames: int) -> FrozenTokens:
        longer = super().padded(frames)
        assert self.spans is not None
        spare = longer.frames.shape[1] - self.spans.shape[1]
        return replace(longer, spans=F.pad(self.spans, (0, 0, 0, spare)))


@register
class Frozen(Backbone):
    """An encoder's own vectors, cut into moments."""

    method = "frozen"
    title = "Frozen (no training)"
    trainable = False
    config_type = FrozenConfig
    config: FrozenConfig
    unit_tokens = False  # a moment's vector is longer where its neighbours agree, and that counts

    @property
    def width(self) -> int:
        return self.config.visual_width

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The mean of a query's tokens, at unit length. A sentence encoder gives one token per query."""
        real = as_mask(mask)[..., None].to(tokens.dtype)
        return F.normalize((tokens * real).sum(1), dim=-1)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> FrozenTokens:
        """Local tokens of each video. Padded frames are left out; clips are not used."""
        mask = as_mask(frame_mask)
        return self.join([self.moments(video[real]) for video, real in zip(frames, mask, strict=True)])

    def moments(self, frames: Tensor) -> Moments:
        """The local tokens of one video, (n, D) frames."""
        c = self.config
        if len(frames) == 0:
            raise ValueError("a video without a single frame has no moments")
        if c.local == "moments":
            return adaptive_moments(frames, c.propagation, c.chapter, c.overlap)
        return single_frames(frames) if c.local == "frames" else fixed_windows(frames, c.window, c.stride)

    def join(self, videos: list[Moments]) -> FrozenTokens:
        """Videos as one padded batch, with anchors."""
        longest = max(len(video.vectors) for video in videos)
        vectors = torch.stack([F.pad(v.vectors, (0, 0, 0, longest - len(v.vectors))) for v in videos])
        spans = torch.stack([F.pad(v.spans, (0, 0, 0, longest - len(v.spans))) for v in videos])
        mask = spans[..., 1] > spans[..., 0]
        tokens = FrozenTokens(vectors, mask, vectors.new_zeros(len(videos), 0, vectors.shape[2]), spans=spans)
        if self.config.anchors == "none":
            return tokens
        anchored = with_anchors(tokens, self.config.anchors)
        assert isinstance(anchored, FrozenTokens)
        return anchored

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        return (TokenSet(1.0, videos.frames),)

    # -- there is nothing to train ------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        self._nothing_to_train()

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        self._nothing_to_train()

    @property
    def loss_weights(self) -> dict[str, float]:
        return {}

    def _nothing_to_train(self) -> NoReturn:
        raise TypeError(f"{self.method} has no parameters: there is nothing to train")
