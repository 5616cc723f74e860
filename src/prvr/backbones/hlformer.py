"""HLFormer: banks that are half Euclidean, half hyperbolic, and a loss that orders videos above their queries.

Reading order: ``HybridBank`` (the encoder of clips and of frames), ``objective`` (ranking terms and partial order).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BankAggregation
from prvr.backbones.blocks.attention import AttentionBank
from prvr.backbones.blocks.inputs import WordPooling
from prvr.backbones.blocks.lorentz import LorentzBank, clamped_parameter
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.registry import register
from prvr.backbones.two_branch import TwoBranch, TwoBranchConfig, shared_settings
from prvr.losses import onto_hyperboloid, partial_order
from prvr.tokens import VideoTokens

_LARGEST_LOG_CURVATURE = math.log(10)


@dataclass(frozen=True)
class HLFormerConfig(TwoBranchConfig):
    """Defaults are the Charades-STA configuration of the HLFormer release."""

    hyperbolic_width: int = 127
    """space coordinates of a point; one more, the time, must make it divisible by the heads"""
    curvature: float = 1.0
    """curvature that the partial order starts from"""
    learn_curvature: bool = True
    """whether training changes it"""
    clip_weight: float = 0.7
    """share of the clip branch in the score"""
    frame_weight: float = 0.3
    """share of the frame branch in the score"""
    weight_order: float = 1e-3
    """loss weight: partial order of videos and queries"""


class HybridBank(nn.Module):
    """Half of the blocks attend in Euclidean space, half on the hyperboloid; one aggregation blends them all."""

    def __init__(self, config: HLFormerConfig, length: int):
        super().__init__()
        c = config
        if c.blocks % 2:
            raise ValueError(f"{c.blocks} blocks cannot be half Euclidean and half hyperbolic: choose an even number")
        windows = [None] + [2.0**k for k in range(1, c.blocks // 2)]  # none, 2, 4, 8
        self.euclidean = AttentionBank(c.width, c.heads, windows, length, c.dropout)
        self.hyperbolic = LorentzBank(c.width, c.hyperbolic_width, c.heads, windows, length, c.dropout)
        self.aggregate = BankAggregation(c.width, c.heads, length, c.dropout, c.block_temperature)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.aggregate(self.outputs(x, mask), mask)

    def outputs(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Of every block, the Euclidean ones first: (B, L, D) → (K, B, L, D)."""
        return torch.cat([self.euclidean(x, mask), self.hyperbolic(x, mask)])

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("aggregate", self.aggregate.official_keys(prefix))
        keys |= under("euclidean", self.euclidean.official_keys(_numbered(f"{prefix}.e_attns", self.euclidean.blocks)))
        blocks = _numbered(f"{prefix}.h_attns", self.hyperbolic.blocks)
        return keys | under("hyperbolic", self.hyperbolic.official_keys(blocks))


@register
class HLFormer(TwoBranch):
    """Hybrid Lorentz attention."""

    method = "hlformer"
    title, year = "HLFormer", 2025
    config_type = HLFormerConfig
    config: HLFormerConfig
    clip_encoder: HybridBank
    frame_encoder: HybridBank
    official_constants: ClassVar[Mapping[str, float]] = {"manifold.k": 1.0}  # Lorentz blocks have curvature −1 always

    def __init__(self, config: HLFormerConfig):
        super().__init__(config)
        self.clip_encoder = HybridBank(config, config.clips)
        self.frame_encoder = HybridBank(config, config.frames)
        self.clip_pool, self.frame_pool = WordPooling(config.width), WordPooling(config.width)
        shrink = -0.5 * math.log(config.width)  # vectors of width D start at about unit length
        self.log_curvature = nn.Parameter(torch.tensor(math.log(config.curvature)))
        self.log_query_scale, self.log_video_scale = (nn.Parameter(torch.tensor(shrink)) for _ in range(2))
        if not config.learn_curvature:
            self.untrained = ("log_curvature",)
            self.log_curvature.requires_grad_(False)
        self.initialise()

    def initialise(self) -> None:
        super().initialise()
        for encoder in (self.clip_encoder, self.frame_encoder):
            encoder.hyperbolic.initialise(self.config.init_std)

    # -- training -----------------------------------------------------------------------------------------------------

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        videos, queries, curvature = self.hyperbolic_points(encoded.videos, encoded.per_query["shaped"])
        terms["order"] = partial_order(videos, queries, encoded.labels, curvature)
        return terms

    def hyperbolic_points(self, videos: VideoTokens, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Videos (B, D) and queries (N, D) as space parts on one hyperboloid, and its curvature ()."""
        curvature = clamped_parameter(self.log_curvature, -_LARGEST_LOG_CURVATURE, _LARGEST_LOG_CURVATURE).exp()
        # Padded frame slots are zero and take part with logit 0, as in the authors' code.
        pooled = (self.frame_pool(videos.frames.float()) + self.clip_pool(videos.clips.float())) / 2
        video_scale, query_scale = (
            clamped_parameter(self.log_video_scale, high=0.0).exp(),
            clamped_parameter(self.log_query_scale, high=0.0).exp(),
        )
        return (
            onto_hyperboloid(pooled * video_scale, curvature),
            onto_hyperboloid(queries.float() * query_scale, curvature),
            curvature,
        )

    @property
    def loss_weights(self) -> dict[str, float]:
        return super().loss_weights | {"order": self.config.weight_order}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> HLFormerConfig:
        settings = shared_settings(config, "weight_order") | renamed(config, {"lorentz_dim": "hyperbolic_width"})
        return HLFormerConfig(
            **settings,
            curvature=float(config.get("curv_init", cls.config_type.curvature)),
            learn_curvature=bool(config.get("learn_curv", config.get("learn_curv_bool", True))),
        )

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys()
        keys |= {"log_curvature": "curv", "log_query_scale": "textual_alpha", "log_video_scale": "video_alpha"}
        keys |= under("frame_pool", self.frame_pool.official_keys("modular_vector_mapping_2"))
        keys |= under("clip_pool", self.clip_pool.official_keys("modular_vector_mapping_3"))
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder_1"))


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}.{k}" for k in range(count)]
