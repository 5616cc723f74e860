"""Holmes: plain Gaussian banks, trained to estimate their uncertainty and which clips a query is about.

The model is the simplest of its family. What is new is in ``objective``: scores as evidence, softened targets for
ambiguous queries, and transport between a video's queries and clips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BlendedBank
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.registry import register
from prvr.backbones.two_branch import TwoBranch, TwoBranchConfig, shared_settings
from prvr.losses import (
    ambiguous,
    combined_evidence,
    dirichlet_evidence,
    divide_queries,
    evidential_error,
    masked_mean,
    mean_per_video,
    query_clip_similarity,
    softened_targets,
    transport_plan,
)

_SETTINGS = {  # the authors' names -> ours
    "warmup_epoch": "warmup_epochs",
    "edl_tau": "evidence_temperature",
    "edl_intra_video_tau": "clip_evidence_temperature",
    "pot_scale": "transport_scale",
    "pot_prompt_ratio": "dustbin_share",
    "division_beta": "division_bound",
    "smooth_beta": "softening",
}


@dataclass(frozen=True)
class HolmesConfig(TwoBranchConfig):
    """Defaults are the Charades-STA configuration of the Holmes release (one query branch)."""

    warmup_epochs: int = 20
    """epochs with hard targets only; from then on ambiguous queries are softened and transport joins"""
    evidence_temperature: float = 0.08
    """temperature that turns query–video scores into evidence"""
    clip_evidence_temperature: float = 0.08
    """temperature that turns query–clip similarities inside a video into evidence"""
    transport_scale: float = 0.1
    """entropy of the transport plan: the smaller, the sharper"""
    dustbin_share: float = 0.3
    """share of a video's query–clip similarities that the dustbin outbids"""
    division_bound: float = 0.3
    """least score of a confident query, and one minus the largest uncertainty of a certain one"""
    softening: float = 0.2
    """share of the model's own guess in the target of an ambiguous query"""
    weight_intra: float = 9e-4
    """loss weight: evidence for clips inside a video"""
    weight_inter: float = 0.06
    """loss weight: evidence for videos, once per branch and once combined"""

    def regime_at(self, epoch: int) -> tuple[int, ...]:
        return (*super().regime_at(epoch), int(epoch >= self.warmup_epochs))


@register
class Holmes(TwoBranch):
    """Evidential learning between and inside videos."""

    method = "holmes"
    title, year = "Holmes", 2026
    config_type = HolmesConfig
    config: HolmesConfig
    clip_encoder: BlendedBank
    frame_encoder: BlendedBank
    untrained = ("weight_token",)
    takes_residual = False

    def __init__(self, config: HolmesConfig):
        super().__init__(config)
        c, windows = config, [None, *(2.0 ** (k - 2) for k in range(1, config.blocks))]  # none, 1/2, 1, 2, …
        self.clip_encoder, self.frame_encoder = (
            BlendedBank(c.width, c.heads, windows, length, c.dropout, c.block_temperature, "e_attns.")
            for length in (c.clips, c.frames)
        )
        # In the authors' checkpoints, though nothing reads it: the aggregation's token is always a mean.
        self.weight_token = nn.Parameter(torch.randn(1, 1, config.width), requires_grad=False)
        self.initialise()

    # -- training -----------------------------------------------------------------------------------------------------

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, cosines = self.config, self.branch_cosines(encoded)
        terms = self.ranking_terms(encoded, cosines, epoch=epoch, generator=generator)
        warm = epoch < c.warmup_epochs
        terms |= self.between_videos(cosines["frame"], cosines["clip"], encoded.labels, soften=not warm)
        if not warm:
            shaped, clips = encoded.per_query["shaped"].float(), encoded.videos.clips.float()
            terms["intra"] = self.inside_videos(shaped, clips, encoded.labels)
        return terms

    def between_videos(self, frames: Tensor, clips: Tensor, labels: Tensor, *, soften: bool) -> dict[str, Tensor]:
        """Evidential loss over the batch's videos, per branch and combined, on cosines (N, B)."""
        c = self.config
        by_frame, by_clip = (dirichlet_evidence(scores, c.evidence_temperature) for scores in (frames, clips))
        unclear = torch.zeros_like(labels, dtype=torch.bool)
        if soften:
            unclear = ambiguous(
                divide_queries(frames, by_frame, labels, c.division_bound),
                divide_queries(clips, by_clip, labels, c.division_bound),
            )
        targets = softened_targets(frames, clips, labels, unclear, c.softening)
        views = {"frame": by_frame, "clip": by_clip, "both": combined_evidence(by_frame, by_clip)}
        return {
            f"inter_{name}": masked_mean(evidential_error(view, targets), labels >= 0) for name, view in views.items()
        }

    def inside_videos(self, queries: Tensor, clips: Tensor, labels: Tensor) -> Tensor:
        """Evidential loss over a video's clips, with the transport plan as target. (N, D), (B, C, D) → ()."""
        c = self.config
        similarity = query_clip_similarity(queries, clips, labels)
        plan = transport_plan(similarity, labels, len(clips), scale=c.transport_scale, dustbin_share=c.dustbin_share)
        error = evidential_error(dirichlet_evidence(similarity, c.clip_evidence_temperature), plan)
        return mean_per_video(error, labels, len(clips))

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        inter = dict.fromkeys(("inter_frame", "inter_clip", "inter_both"), c.weight_inter)
        return super().loss_weights | inter | {"intra": c.weight_intra}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> HolmesConfig:
        return HolmesConfig(**shared_settings(config, "weight_intra", "weight_inter"), **renamed(config, _SETTINGS))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | {"weight_token": "weight_token"}
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder_1"))
