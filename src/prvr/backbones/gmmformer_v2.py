"""GMMFormer v2: a bank of Gaussian attentions blended position by position, with clips matched to captions.

Reading order: ``MixingBlock`` (bank, then blending steered by one learned token), ``encode_videos``, ``objective``
(contrast and triplet on both branches, query diversity, one-to-one matching).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BankAggregation
from prvr.backbones.blocks.attention import AttentionBank
from prvr.backbones.blocks.official import OfficialKey, under
from prvr.backbones.blocks.windows import from_widths, to_widths
from prvr.backbones.registry import register
from prvr.backbones.trunk import Trunk, TrunkConfig, trunk_settings, video_tokens
from prvr.losses import matching, query_diversity
from prvr.tokens import VideoTokens


@dataclass(frozen=True)
class GMMFormerV2Config(TrunkConfig):
    """Defaults are the Charades-STA configuration of the GMMFormer v2 release."""

    windows: tuple[float, ...] = (0.0, 0.5, 1.0, 5.0, 10.0, 3.0, 0.1, 8.0)
    """widths of a bank's Gaussian windows, one attention block each; 0: no window"""
    block_temperature: float = 0.6
    """temperature of the softmax over a bank's blocks"""
    diversity_offset: float = 0.2
    """δ of the query diversity loss"""
    diversity_scale: float = 32.0
    """α of the query diversity loss"""
    diversity_power: float = 1.0
    """λ of the query diversity loss"""
    weight_diversity: float = 3e-3
    """loss weight: query diversity"""
    weight_matching: float = 0.1
    """loss weight: one-to-one matching of queries and clips"""


class MixingBlock(nn.Module):
    """A bank whose blocks are blended with weights that a learned token reads off them, (B, L, D) → (B, L, D)."""

    def __init__(self, config: GMMFormerV2Config, length: int):
        super().__init__()
        c = config
        self.bank = AttentionBank(c.width, c.heads, from_widths(c.windows), length, c.dropout)
        self.aggregate = BankAggregation(c.width, c.heads, length, c.dropout, c.block_temperature)

    def forward(self, x: Tensor, token: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.aggregate(self.bank(x, mask), mask, token)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        blocks = [f"{prefix}.attn{k}" for k in range(self.bank.blocks)]
        return under("bank", self.bank.official_keys(blocks)) | under("aggregate", self.aggregate.official_keys(prefix))


@register
class GMMFormerV2(Trunk):
    """Both branches keep their tokens; local evidence lives in the frames."""

    method = "gmmformer_v2"
    title, year = "GMMFormer v2", 2024
    config_type = GMMFormerV2Config
    config: GMMFormerV2Config

    def __init__(self, config: GMMFormerV2Config):
        super().__init__(config)
        self.clip_encoder = MixingBlock(config, config.clips)
        self.frame_encoder = MixingBlock(config, config.frames)
        self.weight_token = nn.Parameter(torch.empty(1, 1, config.width))  # one for both branches
        self.initialise()

    def initialise(self) -> None:
        super().initialise()
        nn.init.normal_(self.weight_token)  # the authors' pass leaves it as it was drawn

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        clip_tokens, frame_tokens, mask = self.embed_videos(frames, frame_mask, clips)
        encoded_clips = self.clip_encoder(clip_tokens, self.weight_token)
        return video_tokens(self.frame_encoder(frame_tokens, self.weight_token, mask), mask, encoded_clips)

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, labels, shaped = self.config, encoded.labels, encoded.per_query["shaped"].float()
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        terms["diversity"] = query_diversity(
            shaped, labels, offset=c.diversity_offset, scale=c.diversity_scale, power=c.diversity_power
        )
        terms["matching"] = matching(shaped, labels, encoded.videos.clips.float())
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        return super().loss_weights | {"diversity": c.weight_diversity, "matching": c.weight_matching}

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> GMMFormerV2Config:
        weights, diversity = config["loss_factor"], config["neg_factor"]
        return GMMFormerV2Config(
            **trunk_settings(config, "visual_input_size", "query_input_size"),
            windows=to_widths(config["gaussian_widths"]) if "gaussian_widths" in config else cls.config_type.windows,
            block_temperature=config["sft_factor"],
            diversity_offset=diversity[0],
            diversity_scale=diversity[1],
            diversity_power=diversity[2],
            weight_nce_clip=weights[0],
            weight_nce_frame=weights[1],
            weight_diversity=weights[2],
            weight_matching=weights[3],
        )

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | {"weight_token": "weight_token"}
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder_1"))
