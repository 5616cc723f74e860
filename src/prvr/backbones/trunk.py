"""The trunk of this field's two-branch models: a query as one vector, a video as clips and as frames.

A method adds an encoder for each branch and its own use of their outputs. Inputs, query branch, frame slots, ranking
losses, initial weights and the authors' names for all of these are the same in all methods since MS-SL, and are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.base import Backbone, BackboneConfig, Encoded
from prvr.backbones.blocks.attention import AttentionBank, DenseAttentionBank
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.inputs import InputEmbedding, WordPooling
from prvr.backbones.blocks.official import OfficialKey, listed, renamed, under
from prvr.backbones.scores import TokenSet, max_cosine, max_dot
from prvr.losses import Negatives, pick_negatives, query_diversity, triplet, two_way_nce
from prvr.tokens import TrainBatch, VideoTokens, as_mask


@dataclass(frozen=True)
class TrunkConfig(BackboneConfig):
    """Numbers that every two-branch method has. A method sets its own defaults where they differ."""

    width: int = 384
    """hidden width D"""
    heads: int = 4
    """attention heads"""
    dropout: float = 0.25
    """dropout inside blocks"""
    input_dropout: float = 0.25
    """dropout on inputs"""
    init_std: float = 0.02
    """deviation of the initial weights"""
    clip_weight: float = 0.7
    """share of the clip branch in the score"""
    frame_weight: float = 0.3
    """share of the frame branch in the score"""
    margin: float = 0.2
    """triplet margin"""
    weight_nce_clip: float = 0.02
    """loss weight: contrast on clips"""
    weight_nce_frame: float = 0.04
    """loss weight: contrast on frames"""


@dataclass(frozen=True)
class DiverseConfig(TrunkConfig):
    """Settings of methods with a query diversity loss."""

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


class Trunk(Backbone):
    """Inputs and query branch. A method's ``__init__`` adds its encoders and ends with ``initialise``."""

    has_words = True
    takes_residual = True
    config: TrunkConfig
    query_encoder: AttentionBank | DenseAttentionBank

    def __init__(
        self, config: TrunkConfig, query_layer: type[AttentionBank] | type[DenseAttentionBank] = AttentionBank
    ):
        super().__init__(config)
        c = config
        positions = max(c.frames, c.clips)  # the authors give clips as many positions as frames
        self.query_input = InputEmbedding(c.query_width, c.width, c.words, c.input_dropout)
        self.query_encoder = query_layer(c.width, c.heads, [None], None, c.dropout)
        self.query_pool = WordPooling(c.width)
        self.clip_input = InputEmbedding(c.visual_width, c.width, positions, c.input_dropout)
        self.frame_input = InputEmbedding(c.visual_width, c.width, c.frames, c.input_dropout)

    @property
    def width(self) -> int:
        return self.config.width

    def initialise(self) -> None:
        """One pass over all modules, as the authors do: N(0, 0.02²) weights, zero biases, unit norms."""
        initialise(self, self.config.init_std)

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.query_vectors(tokens, mask)

    def query_vectors(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """One vector per query, (Q, L, Dq), (Q, L) → (Q, D)."""
        return self.query_pool(self.word_states(tokens, mask), as_mask(mask))

    def word_states(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.query_encoder(self.query_input(tokens), as_mask(mask))[0]

    def embed_videos(
        self, frames: Tensor, frame_mask: Tensor, clips: Tensor, *, all_slots: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Clips (V, C, D) and frames (V, M, D) on their way into the encoders, and the mask of frame slots.

        ``all_slots``: frames are zero-padded to as many slots as the model has, so that a video's tokens do not depend
        on the batch it is in.
        """
        if clips.shape[1] != self.config.clips:
            raise ValueError(f"{clips.shape[1]} clips per video, but this model was made for {self.config.clips}")
        spare = self.config.frames - frames.shape[1]
        if spare < 0:
            raise ValueError(
                f"{frames.shape[1]} frames per video, but this model has {self.config.frames} slots: "
                "resample first (prvr.data.sample_frames)"
            )
        mask = as_mask(frame_mask)
        frames = frames.masked_fill(~mask[..., None], 0.0)  # padded slots must not have an effect
        if all_slots:
            frames, mask = F.pad(frames, (0, 0, 0, spare)), F.pad(mask, (0, spare))
        return self.clip_input(clips), self.frame_input(frames), mask

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        # Padded frame slots are zero and take part with cosine 0: a short video never scores below 0 on frames.
        return TokenSet(self.config.clip_weight, videos.clips), TokenSet(self.config.frame_weight, videos.frames)

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        scored, shaped = self.encode_queries_twice(batch.queries.tokens, batch.queries.mask)
        videos = self.encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        return Encoded(scored, batch.labels, videos, {"shaped": shaped})

    def encode_queries_twice(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Scores see one pass, the query losses another with its own dropout, as in the authors' training step."""
        if not self.training or self.config.dropout == self.config.input_dropout == 0:
            once = self.query_vectors(tokens, mask)
            return once, once
        first, second = self.query_vectors(tokens.repeat(2, 1, 1), mask.repeat(2, 1)).chunk(2)
        return first, second

    def branch_cosines(self, encoded: Encoded) -> dict[str, Tensor]:
        """Best cosine of every query with every video, (N, B), per branch."""
        queries, videos = encoded.queries.float(), encoded.videos
        return {"clip": max_cosine(queries, videos.clips.float()), "frame": max_cosine(queries, videos.frames.float())}

    def branch_dots(self, encoded: Encoded) -> dict[str, Tensor]:
        """Best dot product of every query with every video, (N, B), per branch."""
        queries, videos = encoded.queries.float(), encoded.videos
        return {"clip": max_dot(queries, videos.clips.float()), "frame": max_dot(queries, videos.frames.float())}

    def ranking_terms(
        self, encoded: Encoded, cosines: Mapping[str, Tensor], *, epoch: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Contrast on best dot products and triplet on best cosines, for both branches."""
        labels, pool, dots = encoded.labels, self.config.pool_at(epoch), self.branch_dots(encoded)
        if encoded.residual is not None:
            cosines, dots = ({k: v + encoded.residual for k, v in scores.items()} for scores in (cosines, dots))
        negatives = {
            name: pick_negatives(scores, labels, hard_pool=pool, generator=generator)
            for name, scores in cosines.items()
        }
        return self.ranking_losses(cosines, dots, labels, negatives)

    def ranking_losses(
        self,
        cosines: Mapping[str, Tensor],
        dots: Mapping[str, Tensor],
        labels: Tensor,
        negatives: Mapping[str, Negatives],
    ) -> dict[str, Tensor]:
        """``ranking_terms`` from scores (N, B) and chosen negatives. Nothing is drawn here."""
        terms = {}
        for name, scores in cosines.items():
            terms[f"nce_{name}"] = two_way_nce(dots[name], labels)
            terms[f"triplet_{name}"] = triplet(scores, labels, self.config.margin, negatives[name])
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        return {
            "nce_clip": c.weight_nce_clip,
            "nce_frame": c.weight_nce_frame,
            "triplet_clip": 1.0,
            "triplet_frame": 1.0,
        }

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {}
        for branch in ("query", "clip", "frame"):
            embedding = self.get_submodule(f"{branch}_input")
            assert isinstance(embedding, InputEmbedding)
            keys |= under(f"{branch}_input.project", embedding.project.official_keys(f"{branch}_input_proj"))
            keys |= under(f"{branch}_input.position", embedding.position.official_keys(f"{branch}_pos_embed"))
        keys |= under("query_encoder", self.query_encoder.official_keys("query_encoder"))
        return keys | under("query_pool", self.query_pool.official_keys("modular_vector_mapping"))


class DiverseTrunk(Trunk):
    """A trunk whose objective also has a query diversity loss."""

    config: DiverseConfig

    def ranking_terms(
        self, encoded: Encoded, cosines: Mapping[str, Tensor], *, epoch: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Contrast and triplet on both branches, and the diversity of a video's queries."""
        terms = super().ranking_terms(encoded, cosines, epoch=epoch, generator=generator)
        return terms | self.query_losses(encoded.per_query["shaped"].float(), encoded.labels)

    def query_losses(self, queries: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Terms that look at queries (N, D) alone."""
        c = self.config
        offset, scale, power = c.diversity_offset, c.diversity_scale, c.diversity_power
        return {"diversity": query_diversity(queries, labels, offset=offset, scale=scale, power=power)}

    @property
    def loss_weights(self) -> dict[str, float]:
        return super().loss_weights | {"diversity": self.config.weight_diversity}


def video_tokens(frames: Tensor, frame_mask: Tensor, clips: Tensor, registers: Tensor | None = None) -> VideoTokens:
    """Encoded videos, with padded frame slots set to exactly zero."""
    return VideoTokens(frames * frame_mask[..., None].to(frames.dtype), frame_mask, clips, registers)


_SETTINGS = {  # the authors' names -> ours
    "n_heads": "heads",
    "max_ctx_l": "frames",
    "map_size": "clips",
    "max_desc_l": "words",
    "drop": "dropout",
    "input_drop": "input_dropout",
    "initializer_range": "init_std",
    "clip_scale_w": "clip_weight",
    "frame_scale_w": "frame_weight",
    "margin": "margin",
    "hard_pool_size": "hard_pool",
    "hard_negative_start_epoch": "hard_negative_epoch",
}
_WEIGHTS = ("weight_nce_clip", "weight_nce_frame")
_WIDTHS = {"visual_width": ("visual_input_size", "visual_feat_dim"), "query_width": ("query_input_size", "q_feat_size")}


def trunk_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``TrunkConfig`` from the authors' hyper-parameter names, less the loss weights.

    Widths are required, under either of their names in the releases; other missing fields keep their default.
    """
    settings = {"width": config["hidden_size"]} | renamed(config, _SETTINGS)
    for ours, names in _WIDTHS.items():
        settings[ours] = config[next((name for name in names if name in config), names[0])]
    if config.get("use_hard_negative"):
        settings["hard_negative_epoch"] = 0
    return settings


def diverse_settings(config: Mapping[str, Any], *weights: str) -> dict[str, Any]:
    """The fields of ``DiverseConfig`` from the authors' names; ``weights``: further loss weights, in their order."""
    settings = trunk_settings(config) | renamed(config, {"sft_factor": "block_temperature"})
    settings |= listed(config, "neg_factor", ("diversity_offset", "diversity_scale", "diversity_power"))
    return settings | loss_settings(config, "weight_diversity", *weights)


def loss_settings(config: Mapping[str, Any], *weights: str) -> dict[str, Any]:
    """The loss weights that the authors keep in one list: both contrasts, then those of a method, in their order."""
    return listed(config, "loss_factor", (*_WEIGHTS, *weights))
