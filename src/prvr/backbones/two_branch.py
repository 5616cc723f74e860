"""What DreamPRVR, HLFormer and Holmes share beyond the trunk: banks whose blocks are blended, and query diversity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.trunk import Trunk, TrunkConfig, trunk_settings, video_tokens
from prvr.losses import query_diversity
from prvr.tokens import VideoTokens

__all__ = ["TwoBranch", "TwoBranchConfig", "shared_settings", "video_tokens"]


@dataclass(frozen=True)
class TwoBranchConfig(TrunkConfig):
    """Defaults are the Charades-STA numbers that the methods agree on."""

    blocks: int = 8
    """attention blocks in a bank"""
    block_temperature: float = 0.6
    """temperature of the softmax over a bank's blocks"""
    clip_weight: float = 0.6
    """share of the clip branch in the score"""
    frame_weight: float = 0.4
    """share of the frame branch in the score"""
    diversity_offset: float = 0.2
    """δ of the query diversity loss"""
    diversity_scale: float = 32.0
    """α of the query diversity loss"""
    diversity_power: float = 1.0
    """λ of the query diversity loss"""
    weight_diversity: float = 3e-3
    """loss weight: query diversity"""


class TwoBranch(Trunk):
    """A method sets ``clip_encoder`` and ``frame_encoder`` and calls ``initialise``."""

    compiled: tuple[str, ...] = (
        "query_input",
        "query_encoder",
        "frame_input",
        "clip_input",
        "clip_encoder",
        "frame_encoder",
    )
    config: TwoBranchConfig
    clip_encoder: nn.Module  # (V, C, D) → (V, C, D)
    frame_encoder: nn.Module  # (V, M, D), mask (V, M) → (V, M, D)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        clip_tokens, frame_tokens, frame_mask = self.embed_videos(frames, frame_mask, clips)
        return video_tokens(self.frame_encoder(frame_tokens, frame_mask), frame_mask, self.clip_encoder(clip_tokens))

    def ranking_terms(
        self, encoded: Encoded, cosines: Mapping[str, Tensor], *, epoch: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Contrast and triplet on both branches, and the diversity of a video's queries."""
        c = self.config
        terms = super().ranking_terms(encoded, cosines, epoch=epoch, generator=generator)
        shaped = encoded.per_query["shaped"].float()
        terms["diversity"] = query_diversity(
            shaped, encoded.labels, offset=c.diversity_offset, scale=c.diversity_scale, power=c.diversity_power
        )
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        return super().loss_weights | {"diversity": self.config.weight_diversity}


def shared_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``TwoBranchConfig`` from the authors' hyper-parameter names."""
    f, d = config["loss_factor"], config["neg_factor"]
    return trunk_settings(config, "visual_feat_dim", "q_feat_size") | {
        "blocks": config["attention_num"],
        "block_temperature": config["sft_factor"],
        "diversity_offset": d[0],
        "diversity_scale": d[1],
        "diversity_power": d[2],
        "weight_nce_clip": f[0],
        "weight_nce_frame": f[1],
        "weight_diversity": f[2],
    }
