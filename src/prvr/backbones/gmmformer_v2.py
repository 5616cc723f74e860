"""GMMFormer v2: a bank of Gaussian attentions blended position by position, with clips matched to captions.

Reading order: ``BlendedBank`` (blocks and their blend, steered by one learned token), ``encode_videos``, ``objective``
(contrast and triplet on both branches, query diversity, one-to-one matching).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BlendedBank
from prvr.backbones.blocks.official import OfficialKey, under
from prvr.backbones.blocks.windows import format_widths, parse_widths
from prvr.backbones.registry import register
from prvr.backbones.trunk import DiverseConfig, DiverseTrunk, diverse_settings, video_tokens
from prvr.losses import matching_loss
from prvr.tokens import VideoTokens


@dataclass(frozen=True)
class GMMFormerV2Config(DiverseConfig):
    """Defaults are the Charades-STA configuration of the GMMFormer v2 release."""

    windows: tuple[float, ...] = (0.0, 0.5, 1.0, 5.0, 10.0, 3.0, 0.1, 8.0)
    """widths of a bank's Gaussian windows, one attention block each; 0: no window"""
    weight_matching: float = 0.1
    """loss weight: one-to-one matching of queries and clips"""


@register
class GMMFormerV2(DiverseTrunk):
    """Both branches keep their tokens; frames are the local evidence."""

    method = "gmmformer_v2"
    title, year = "GMMFormer v2", 2024
    config_type = GMMFormerV2Config
    config: GMMFormerV2Config

    def __init__(self, config: GMMFormerV2Config):
        super().__init__(config)
        c, windows = config, parse_widths(config.windows)
        self.clip_encoder, self.frame_encoder = (
            BlendedBank(c.width, c.heads, windows, length, c.dropout, c.block_temperature, "attn")
            for length in (c.clips, c.frames)
        )
        self.weight_token = nn.Parameter(torch.empty(1, 1, config.width))  # one for both branches
        self.initialise()

    def initialise(self) -> None:
        super().initialise()
        nn.init.normal_(self.weight_token)  # the authors' pass leaves it as it was drawn

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        clip_tokens, frame_tokens, mask = self.embed_videos(frames, frame_mask, clips)
        encoded_clips = self.clip_encoder(clip_tokens, token=self.weight_token)
        return video_tokens(self.frame_encoder(frame_tokens, mask, self.weight_token), mask, encoded_clips)

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        shaped = encoded.per_query["shaped"].float()
        terms["matching"] = matching_loss(shaped, encoded.labels, encoded.videos.clips.float())
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        return super().loss_weights | {"matching": self.config.weight_matching}

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> GMMFormerV2Config:
        settings = diverse_settings(config, "weight_matching")
        if "gaussian_widths" in config:
            settings["windows"] = format_widths(config["gaussian_widths"])
        return GMMFormerV2Config(**settings)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | {"weight_token": "weight_token"}
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder_1"))
