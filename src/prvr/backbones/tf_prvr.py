"""TF-PRVR: the published training-free recipe, as a method to compare with.

Frames and sentences of an image–text encoder are used as they are. A video is cut at several time scales where its
features change direction, relevance flows between the segments, and a query meets the resulting moments
(``blocks.adaptive``). ``frozen`` is the same code with choices, for libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.blocks.words import last_words
from prvr.backbones.frozen import Frozen, FrozenConfig
from prvr.backbones.registry import register
from prvr.backbones.scores import TokenSet
from prvr.tokens import VideoTokens, as_mask


@dataclass(frozen=True)
class TFPRVRConfig(FrozenConfig):
    """The published numbers, on CLIP ViT-L/14."""

    visual_width: int = 768
    """width of the video features"""
    query_width: int = 768
    """width of the word features"""
    frames: int = 100_000
    """most frames per video: the recipe works on all of them, at a steady rate"""
    words: int = 77
    """longest query"""
    anchors: str = "none"
    """what takes the place of registers: temporal-K, global-K, hybrid, or none"""
    sentence: Literal["last", "mean"] = "last"
    """which word feature stands for the sentence: the last (CLIP's end token), or the mean of all"""


@register
class TFPRVR(Frozen):
    """Score: the best dot product of the query with a moment. Moments are the local evidence."""

    method = "tf_prvr"
    title, year, needs = "TF-PRVR (no training)", 2026, ("CLIP features",)
    config_type = TFPRVRConfig
    config: TFPRVRConfig

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        if self.config.sentence == "mean":
            return super().encode_queries(tokens, mask)
        return F.normalize(last_words(tokens, as_mask(mask)), dim=-1)

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        """The moments; padded slots repeat the first one, because a zero would win over moments that oppose a query."""
        return (TokenSet(1.0, torch.where(videos.frame_mask[..., None], videos.frames, videos.frames[:, :1])),)
