"""MSC-PRVR: GMMFormer v2's network on clips of uneven length, trained so that neither queries nor moments collapse.

Reading order: ``encode_videos`` (attention over clips knows their sizes), ``encode_batch`` (teachers and segments, from
the input features), ``objective`` (queries keep the distances and angles that they have in CLIP's text space; frames
and clips of one segment are pulled together).

Clips come from order-preserving merging (``prvr.data.merging``), and word features must end with the sentence's own
vector, as CLIP's do: the last word is the teacher.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BlendedBank
from prvr.backbones.blocks.official import OfficialKey, affine, renamed, under
from prvr.backbones.blocks.segments import level_of, linked_share, merged_segments
from prvr.backbones.blocks.windows import format_widths, parse_widths
from prvr.backbones.blocks.words import last_words
from prvr.backbones.registry import register
from prvr.backbones.trunk import Trunk, TrunkConfig, loss_settings, trunk_settings, video_tokens
from prvr.losses import angle_relation, distance_relation, segment_alignment
from prvr.tokens import FeatureRule, TrainBatch, VideoBatch, VideoTokens, as_mask

_SETTINGS = {  # the authors' names -> ours
    "sft_factor": "block_temperature",
    "sim_thr": "link_threshold",
    "vl_coef": "weight_alignment",
    "rkd_d_coef": "weight_distance",
    "rkd_a_coef": "weight_angle",
}


@dataclass(frozen=True)
class MSCPRVRConfig(TrunkConfig):
    """Defaults are the Charades-STA configuration of the MSC-PRVR paper."""

    visual_width: int = 768
    """width of the video features"""
    query_width: int = 768
    """width of the word features"""
    words: int = 77
    """longest query"""
    clip_weight: float = 0.4
    """share of the clip branch in the score"""
    frame_weight: float = 0.6
    """share of the frame branch in the score"""
    block_temperature: float = 0.6
    """temperature of the softmax over a bank's blocks"""
    windows: tuple[float, ...] = (0.0, 0.5, 1.0, 5.0, 10.0, 3.0, 0.1, 8.0)
    """widths of a bank's Gaussian windows, one attention block each; 0: no window"""
    link_threshold: float = 0.85
    """τ: clips with a larger cosine are linked; the more are, the fewer segments a video has"""
    weight_distance: float = 15.0
    """loss weight: distances between queries"""
    weight_angle: float = 30.0
    """loss weight: angles between queries"""
    weight_alignment: float = 0.1
    """loss weight: alignment of frames and clips"""

    @property
    def feature_rule(self) -> FeatureRule:
        return "merged"


@register
class MSCPRVR(Trunk):
    """Both branches keep their tokens; frames are the local evidence."""

    method = "msc_prvr"
    title, year, needs = "MSC-PRVR", 2025, ("CLIP features",)
    config_type = MSCPRVRConfig
    config: MSCPRVRConfig

    def __init__(self, config: MSCPRVRConfig):
        super().__init__(config)
        c, windows = config, parse_widths(config.windows)
        self.clip_encoder, self.frame_encoder = (
            BlendedBank(c.width, c.heads, windows, length, c.dropout, c.block_temperature, "attn")
            for length in (c.clips, c.frames)
        )
        self.weight_token = nn.Parameter(torch.empty(1, 1, c.width))  # one for both branches
        self.align = nn.Linear(c.width, c.width)  # read by the alignment loss alone
        self.initialise()

    def initialise(self) -> None:
        super().initialise()
        nn.init.normal_(self.weight_token)  # the authors' pass leaves it as it was drawn

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_videos(
        self, frames: Tensor, frame_mask: Tensor, clips: Tensor, clip_sizes: Tensor | None = None
    ) -> VideoTokens:
        """(V, M, Dv), (V, M), (V, C, Dv), sizes (V, C) → tokens. Without sizes, all clips count alike."""
        clip_tokens, frame_tokens, mask = self.embed_videos(frames, frame_mask, clips)
        bias = None if clip_sizes is None else clip_sizes.to(clip_tokens.dtype).log()
        encoded_clips = self.clip_encoder(clip_tokens, token=self.weight_token, key_bias=bias)
        return video_tokens(self.frame_encoder(frame_tokens, mask, self.weight_token), mask, encoded_clips)

    def encode_video_batch(self, batch: VideoBatch) -> VideoTokens:
        return self.encode_videos(batch.frames, batch.frame_mask, batch.clips, batch.clip_sizes)

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        queries, videos, c = batch.queries, batch.videos, self.config
        sizes = videos.clip_sizes
        if sizes is None:
            sizes = videos.clips.new_full(videos.clips.shape[:2], c.frames / c.clips)
        with torch.autocast(videos.clips.device.type, enabled=False), torch.no_grad():
            clips = videos.clips.float()
            segments = merged_segments(clips, sizes, level_of(linked_share(clips, c.link_threshold)))
        vectors, tokens = self.encode_queries(queries.tokens, queries.mask), self.encode_video_batch(videos)
        return Encoded(
            vectors,
            batch.labels,
            tokens,
            {"teacher": last_words(queries.tokens, as_mask(queries.mask))},
            {"sizes": sizes.float(), "segments": segments},
        )

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        relation = encoded.queries.float(), encoded.per_query["teacher"].float(), encoded.labels
        terms["distance"], terms["angle"] = distance_relation(*relation), angle_relation(*relation)
        frames, clips = (self.align(tokens.float()) for tokens in (encoded.videos.frames, encoded.videos.clips))
        aligned = segment_alignment(frames, clips, encoded.per_video["sizes"], encoded.per_video["segments"])
        terms["alignment"] = (aligned.frame_to_clip + aligned.clip_to_frame).mean()
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        own = {"distance": c.weight_distance, "angle": c.weight_angle, "alignment": c.weight_alignment}
        return super().loss_weights | own

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> MSCPRVRConfig:
        settings = trunk_settings(config) | loss_settings(config) | renamed(config, _SETTINGS)
        # Their map_size counts the slots that are merged into clips; the number of clips is fixed in their code.
        settings["clips"] = config.get("clips", MSCPRVRConfig.clips)
        if "gaussian_widths" in config:
            settings["windows"] = format_widths(config["gaussian_widths"])
        return MSCPRVRConfig(**settings)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | {"weight_token": "weight_token"} | affine("align", "vproj_clip")
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder_1"))
