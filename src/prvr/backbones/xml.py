"""XML (Cross-modal Moment Localization): its video stream, ranked by the best cosine over frames.

A query becomes one vector, a video one attention layer over frames; the score is the strongest frame. Two further
layers and a convolution over the query–frame curve predict a moment's start and end: ``moment_states`` and
``moment_logits``, for checkpoints that were trained with times (``moment_head``). Ranking needs none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prvr.backbones.base import Backbone, BackboneConfig, Encoded
from prvr.backbones.blocks.attention import DenseAttentionBank
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.inputs import InputEmbedding
from prvr.backbones.blocks.moments import Span
from prvr.backbones.blocks.official import OfficialKey, affine, renamed, under
from prvr.backbones.blocks.towers import TextTower
from prvr.backbones.registry import register
from prvr.backbones.scores import TokenSet
from prvr.losses import pick_negatives, triplet
from prvr.tokens import TrainBatch, VideoTokens, as_mask

_NO_MOMENT = -1e10  # start and end logit of a padded frame


_SETTINGS = {  # the authors' names -> ours
    "visual_input_size": "visual_width",
    "query_input_size": "query_width",
    "n_heads": "heads",
    "max_ctx_l": "frames",
    "max_desc_l": "words",
    "drop": "dropout",
    "initializer_range": "init_std",
    "margin": "margin",
    "hard_negative_start_epoch": "hard_negative_epoch",
    "hard_pool_size": "hard_pool",
    "conv_kernel_size": "moment_kernel",
    "q2c_alpha": "moment_sharpness",
}


@dataclass(frozen=True)
class XMLConfig(BackboneConfig):
    """Defaults are the release's, with the frame slots of this field."""

    width: int = 256
    """hidden width D"""
    heads: int = 4
    """attention heads"""
    dropout: float = 0.1
    """dropout everywhere"""
    init_std: float = 0.02
    """deviation of the initial weights"""
    margin: float = 0.1
    """margin of the ranking loss"""
    ranking_loss: Literal["hinge", "softplus"] = "hinge"
    """hinge with the margin, or the smooth log(1 + exp(negative - positive))"""
    moment_head: bool = False
    """hold the layers that predict a moment's start and end; no loss of this toolkit trains them"""
    moment_kernel: int = 5
    """frames that the start and end predictors look at"""
    moment_sharpness: float = 20.0
    """factor of the video score in the exponent when moments of several videos are ranked together"""


class CurveMomentHead(nn.Module):
    """Two more attention layers over frames, and convolutions over the curve of query–frame products."""

    def __init__(self, config: XMLConfig):
        super().__init__()
        self.layers = nn.ModuleList(_attention(config) for _ in range(2))
        self.query = nn.Linear(config.width, config.width)
        kernel = config.moment_kernel
        self.start, self.end = (nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False) for _ in range(2))

    def states(self, frames: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            frames = layer(frames, mask)[0]
        return frames

    def forward(self, queries: Tensor, states: Tensor, mask: Tensor) -> Span:
        curve = torch.einsum("qd,vmd->qvm", self.query(queries), states)
        flat = curve.flatten(0, 1)[:, None]  # (Q·V, 1, M)
        start, end = (predict(flat).view_as(curve).masked_fill(~mask, _NO_MOMENT) for predict in (self.start, self.end))
        return Span(start, end)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = affine("query", "video_query_linear")
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, DenseAttentionBank)
            keys |= under(f"layers.{i}", layer.official_keys(f"video_encoder{i + 2}"))
        return keys | {"start.weight": "video_st_predictor.weight", "end.weight": "video_ed_predictor.weight"}


@register
class XML(Backbone):
    """The simplest local evidence: the best frame."""

    method = "xml"
    title, year = "XML", 2020
    config_type = XMLConfig
    config: XMLConfig
    untrained = ("moment_head.",)

    def __init__(self, config: XMLConfig):
        super().__init__(config)
        c = config
        self.text_tower = TextTower(c.query_width, c.width, c.heads, c.words, c.dropout)
        self.frame_input = InputEmbedding(c.visual_width, c.width, c.frames, c.dropout)
        self.frame_encoder = _attention(c)
        self.moment_head = CurveMomentHead(c) if c.moment_head else None
        initialise(self, c.init_std)

    @property
    def width(self) -> int:
        return self.config.width

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.text_tower(tokens, as_mask(mask)).vector

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """Frames after one attention layer; clips are not used."""
        mask = as_mask(frame_mask)
        return VideoTokens.of_frames(self.frame_states(frames, mask), mask)

    def frame_states(self, frames: Tensor, mask: Tensor) -> Tensor:
        """Frame features after one attention layer, (V, M, Dv), (V, M) → (V, M, D)."""
        return self.frame_encoder(self.frame_input(frames), mask)[0]

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        # Only real frames count: a padded slot repeats the first one, which changes no maximum.
        slots = videos.padded(self.config.frames)
        frames = torch.where(slots.frame_mask[..., None], slots.frames, slots.frames[:, :1])
        return (TokenSet(1.0, frames),)

    # -- moments ------------------------------------------------------------------------------------------------------

    def moment_states(self, frames: Tensor, frame_mask: Tensor) -> Tensor:
        """Frame features → the states that starts and ends are read from, (V, M, Dv) → (V, M, D).

        Padded slots keep what the layers make of them: as in the authors' code, the predictors' windows reach over a
        video's end.
        """
        mask = as_mask(frame_mask)
        return self._moments().states(self.frame_states(frames, mask), mask)

    def moment_logits(self, queries: Tensor, states: Tensor, frame_mask: Tensor) -> Span:
        """Query vectors (Q, D) and moment states (V, M, D) → start and end logits of every pair."""
        return self._moments()(queries, states, as_mask(frame_mask))

    def moment_factor(self, scores: Tensor) -> Tensor:
        """The factor of a video's score in the probabilities of its moments, (Q, V) → (Q, V)."""
        return (self.config.moment_sharpness * scores).exp()

    def _moments(self) -> CurveMomentHead:
        if self.moment_head is None:
            raise ValueError(
                "this xml model has no moment head: build it with moment_head=True and load trained weights"
            )
        return self.moment_head

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        videos = self.encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        queries = self.encode_queries(batch.queries.tokens, batch.queries.mask)
        return Encoded(queries, batch.labels, videos.padded(self.config.frames))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, labels = self.config, encoded.labels
        scores = self.base_score(encoded.queries.float(), encoded.videos.to(torch.float32))
        pool = c.pool_at(epoch)
        negatives = pick_negatives(scores, labels, hard_pool=pool, query_pool=c.hard_pool, generator=generator)
        return {"triplet": triplet(scores, labels, c.margin, negatives, soft=c.ranking_loss == "softplus")}

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"triplet": 1.0}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> XMLConfig:
        settings = renamed(config, _SETTINGS) | {"width": config["hidden_size"]}
        if config.get("use_hard_negative"):
            settings["hard_negative_epoch"] = 0
        ranking: Literal["softplus", "hinge"] = "softplus" if config.get("ranking_loss_type") == "lse" else "hinge"
        return XMLConfig(**settings, ranking_loss=ranking, moment_head=True)

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> XMLConfig:
        """A checkpoint without start and end predictors is one trained for ranking alone."""
        return replace(cls.config_from_official(config), moment_head=any("_predictor" in key for key in keys))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = under("text_tower", self.text_tower.official_keys())
        keys |= under("frame_input.project", self.frame_input.project.official_keys("video_input_proj"))
        keys |= under("frame_input.position", self.frame_input.position.official_keys("ctx_pos_embed"))
        keys |= under("frame_encoder", self.frame_encoder.official_keys("video_encoder1"))
        return keys if self.moment_head is None else keys | under("moment_head", self.moment_head.official_keys())


def _attention(config: XMLConfig) -> DenseAttentionBank:
    return DenseAttentionBank(config.width, config.heads, [None], None, config.dropout)
