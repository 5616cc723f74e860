"""UEM: a video is cut into events of unequal length; the event nearest to the query is read frame by frame.

Reading order: ``blocks.events`` (how a video is cut, and how an event is chosen and read), ``encode_videos``,
``base_score``, ``objective``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.base import Backbone, BackboneConfig, Encoded
from prvr.backbones.blocks.attention import AttentionBank
from prvr.backbones.blocks.events import EventTokens, event_numbers, event_scores
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.inputs import InputEmbedding, WordPooling
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.registry import register
from prvr.backbones.trunk import trunk_settings
from prvr.losses import first_video_nce, pick_negatives, triplet, two_way_nce
from prvr.tokens import FeatureRule, TrainBatch, VideoTokens, as_mask


@dataclass(frozen=True)
class UEMConfig(BackboneConfig):
    """Defaults are the ActivityNet configuration of the UEM release; it has none for Charades-STA."""

    visual_width: int = 512
    """width of the video features"""
    query_width: int = 512
    """width of the word features"""
    width: int = 384
    """hidden width D"""
    heads: int = 4
    """attention heads"""
    dropout: float = 0.31
    """dropout inside blocks"""
    input_dropout: float = 0.31
    """dropout on inputs"""
    init_std: float = 0.02
    """deviation of the initial weights"""
    event_threshold: float = 0.9
    """a frame whose cosine with the running centre is not above this opens a new event"""
    whole_video: bool = True
    """the mean of all slots competes with a video's events, as in the authors' code"""
    margin: float = 0.2
    """triplet margin"""
    nce: Literal["two-way", "first-video"] = "two-way"
    """contrast: for every video; or, as released, from video to text for the first video of a batch only"""
    weight_triplet: float = 0.02
    """loss weight: triplet"""

    @property
    def feature_rule(self) -> FeatureRule:
        return "unnormalised"


@register
class UEM(Backbone):
    """Not separable: which event is read depends on the pair. Queries are one vector, and frames are the local
    evidence, so TRACE transfers to it as to MS-SL.

    Events are cut on the frames as they are given. The authors' numbers need frames that are not normalised.
    """

    method = "uem"
    title, year, needs = "UEM", 2025, ("CLIP features",)
    config_type = UEMConfig
    config: UEMConfig
    separable = False
    official_unused = ("cross_attention.",)  # the authors allocate it and never call it

    def __init__(self, config: UEMConfig):
        super().__init__(config)
        c = config
        self.query_input = InputEmbedding(c.query_width, c.width, c.words, c.input_dropout)
        self.query_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.query_pool = WordPooling(c.width)
        self.frame_input = InputEmbedding(c.visual_width, c.width, c.frames, c.input_dropout)
        self.frame_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        initialise(self, c.init_std)

    @property
    def width(self) -> int:
        return self.config.width

    # -- encoding and scores ------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        mask = as_mask(mask)
        return self.query_pool(self.query_encoder(self.query_input(tokens), mask)[0], mask)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> EventTokens:
        """(V, M, Dv), (V, M) → all slots of encoded frames, and the event of each. Clips are not used."""
        spare = self.config.frames - frames.shape[1]
        if spare < 0:
            raise ValueError(
                f"{frames.shape[1]} frames per video, but this model has {self.config.frames} slots: "
                "resample first (prvr.data.sample_frames)"
            )
        mask = F.pad(as_mask(frame_mask), (0, spare))
        frames = F.pad(frames, (0, 0, 0, spare)).masked_fill(~mask[..., None], 0.0)
        with torch.autocast(frames.device.type, enabled=False):
            events = event_numbers(frames.float(), mask, self.config.event_threshold)
        tokens = VideoTokens.of_frames(self.frame_encoder(self.frame_input(frames), mask)[0], mask)
        return EventTokens(tokens.frames, tokens.frame_mask, tokens.clips, events=events)

    def scores(self, queries: Tensor, videos: VideoTokens) -> tuple[Tensor, Tensor]:
        """Averages of cosines and of dot products over the chosen event, (Q, D) → (Q, V) each."""
        if not isinstance(videos, EventTokens):
            raise TypeError("these videos were not encoded by uem: they have no events")
        return event_scores(queries, videos, whole_video=self.config.whole_video)

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        return self.scores(queries, videos)[0]

    def pair_elements(self, words: int, frames: int) -> int:
        return 6 * frames

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        queries = self.encode_queries(batch.queries.tokens, batch.queries.mask)
        return Encoded(queries, batch.labels, self.encode_video_batch(batch.videos))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, labels = self.config, encoded.labels
        cosines, dots = self.scores(encoded.queries.float(), encoded.videos.to(torch.float32))
        negatives = pick_negatives(cosines, labels, hard_pool=c.pool_at(epoch), generator=generator)
        contrast = two_way_nce if c.nce == "two-way" else first_video_nce
        return {"nce": contrast(dots, labels), "triplet": triplet(cosines, labels, c.margin, negatives)}

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"nce": 1.0, "triplet": self.config.weight_triplet}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> UEMConfig:
        """The authors' settings; their contrast is the released one."""
        known = {field.name for field in fields(UEMConfig)}
        settings = {name: value for name, value in trunk_settings(config).items() if name in known}
        settings |= renamed(config, {"threshold": "event_threshold", "lambda": "weight_triplet"})
        return UEMConfig(**settings, nce="first-video")

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {}
        for ours, theirs in (("query", "query_word"), ("frame", "frame")):
            embedding, encoder = self.get_submodule(f"{ours}_input"), self.get_submodule(f"{ours}_encoder")
            assert isinstance(embedding, InputEmbedding)
            assert isinstance(encoder, AttentionBank)
            keys |= under(f"{ours}_input.project", embedding.project.official_keys(f"{theirs}_input_proj"))
            keys |= under(f"{ours}_input.position", embedding.position.official_keys(f"{theirs}_pos_embed"))
            keys |= under(f"{ours}_encoder", encoder.official_keys(f"{theirs}_encoder"))
        return keys | under("query_pool", self.query_pool.official_keys("modular_vector_mapping"))
