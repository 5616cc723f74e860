"""GMMFormer: Gaussian attention at several widths, averaged; clips stay separate, frames become one vector.

Reading order: ``GaussianBlock`` (one attention per window, their mean), ``encode_videos`` (two blocks per branch),
``objective`` (contrast and triplet on both branches, crowding of the queries).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.attention import DenseAttentionBank
from prvr.backbones.blocks.inputs import WordPooling
from prvr.backbones.blocks.official import OfficialKey, listed, under
from prvr.backbones.blocks.windows import format_widths, parse_widths
from prvr.backbones.registry import register
from prvr.backbones.trunk import Trunk, TrunkConfig, trunk_settings
from prvr.losses import crowding
from prvr.tokens import VideoTokens


@dataclass(frozen=True)
class GMMFormerConfig(TrunkConfig):
    """Defaults are the Charades-STA configuration of the GMMFormer release."""

    windows: tuple[float, ...] = (0.0, 0.5, 1.0, 5.0)
    """widths of a block's Gaussian windows, one attention each; 0: no window"""
    windows_over_slots: bool = True
    """lay windows over all frame slots, so that a video's vector depends on no other video; false: over the longest
    video of the batch, as the authors do"""
    dropout: float = 0.15
    """dropout inside blocks"""
    input_dropout: float = 0.15
    """dropout on inputs"""
    hard_negative_epoch: int = 100
    """first epoch (from 0) whose triplets meet hard negatives"""
    diversity_offset: float = 0.15
    """δ of the query diversity loss"""
    diversity_scale: float = 32.0
    """α of the query diversity loss"""
    weight_nce_frame: float = 0.02
    """loss weight: contrast on frames"""
    weight_diversity: float = 5e-3
    """loss weight: query diversity"""


class GaussianBlock(DenseAttentionBank):
    """The mean of one attention layer per window, (B, L, D) → (B, L, D)."""

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, key_mask).mean(0)


@register
class GMMFormer(Trunk):
    """Its frame branch is one vector, so clips are the local evidence."""

    method = "gmmformer"
    title, year = "GMMFormer", 2024
    config_type = GMMFormerConfig
    config: GMMFormerConfig
    keeps_frames = False

    def __init__(self, config: GMMFormerConfig):
        super().__init__(config, DenseAttentionBank)
        c, windows = config, parse_widths(config.windows)
        self.clip_encoder = nn.ModuleList(
            GaussianBlock(c.width, c.heads, windows, c.clips, c.dropout) for _ in range(2)
        )
        self.frame_encoder = nn.ModuleList(
            GaussianBlock(c.width, c.heads, windows, c.frames, c.dropout) for _ in range(2)
        )
        self.frame_pool = WordPooling(c.width)
        self.initialise()

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """Frames come out as one pooled vector per video, (V, 1, D)."""
        clip_tokens, frame_tokens, mask = self.embed_videos(
            frames, frame_mask, clips, all_slots=self.config.windows_over_slots
        )
        for encode in self.clip_encoder:
            clip_tokens = encode(clip_tokens)
        for encode in self.frame_encoder:
            frame_tokens = encode(frame_tokens, mask)
        pooled = self.frame_pool(frame_tokens, mask)[:, None]
        return VideoTokens(pooled, mask.any(1, keepdim=True), clip_tokens, evidence_from="clips")

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c = self.config
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        shaped = encoded.per_query["shaped"].float()
        terms["diversity"] = crowding(shaped, encoded.labels, offset=c.diversity_offset, scale=c.diversity_scale)
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        return super().loss_weights | {"diversity": self.config.weight_diversity}

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> GMMFormerConfig:
        settings = trunk_settings(config) | listed(config, "neg_factor", ("diversity_offset", "diversity_scale"))
        settings |= listed(config, "loss_factor", ("weight_nce_clip", "weight_nce_frame", "weight_diversity"))
        if "gaussian_widths" in config:
            settings["windows"] = format_widths(config["gaussian_widths"])
        return GMMFormerConfig(**settings, windows_over_slots=False)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | under("frame_pool", self.frame_pool.official_keys("modular_vector_mapping_2"))
        branches = (
            ("clip_encoder", self.clip_encoder, ("clip_encoder", "clip_encoder_2")),
            ("frame_encoder", self.frame_encoder, ("frame_encoder_1", "frame_encoder_2")),
        )
        for ours, blocks, names in branches:
            for k, (block, name) in enumerate(zip(blocks, names, strict=True)):
                assert isinstance(block, GaussianBlock)
                keys |= under(f"{ours}.{k}", block.official_keys([f"{name}.attn{n}" for n in range(block.blocks)]))
        return keys
