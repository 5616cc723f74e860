"""The part that DreamPRVR, HLFormer and Holmes share beyond the trunk: two banks whose blocks are blended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from prvr.backbones.blocks.official import renamed
from prvr.backbones.trunk import DiverseConfig, DiverseTrunk, diverse_settings, video_tokens
from prvr.tokens import VideoTokens

__all__ = ["TwoBranch", "TwoBranchConfig", "shared_settings", "video_tokens"]


@dataclass(frozen=True)
class TwoBranchConfig(DiverseConfig):
    """Defaults are the Charades-STA numbers that the methods agree on."""

    blocks: int = 8
    """attention blocks in a bank"""
    clip_weight: float = 0.6
    """share of the clip branch in the score"""
    frame_weight: float = 0.4
    """share of the frame branch in the score"""


class TwoBranch(DiverseTrunk):
    """A method sets ``clip_encoder`` and ``frame_encoder`` and calls ``initialise``."""

    compiled: tuple[str, ...] = (
        "frame_input",
        "clip_input",
        "clip_encoder",
        "frame_encoder",
        "query_vectors",
        "branch_cosines",
        "branch_dots",
        "ranking_losses",
        "query_losses",
    )
    config: TwoBranchConfig
    clip_encoder: nn.Module  # (V, C, D) → (V, C, D)
    frame_encoder: nn.Module  # (V, M, D), mask (V, M) → (V, M, D)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        clip_tokens, frame_tokens, frame_mask = self.embed_videos(frames, frame_mask, clips)
        return video_tokens(self.frame_encoder(frame_tokens, frame_mask), frame_mask, self.clip_encoder(clip_tokens))


def shared_settings(config: Mapping[str, Any], *weights: str) -> dict[str, Any]:
    """The fields of ``TwoBranchConfig`` from the authors' hyper-parameter names; further loss weights as named."""
    return diverse_settings(config, *weights) | renamed(config, {"attention_num": "blocks"})
