"""CONQUER: a second stage that compares every frame with every word.

Video and query are encoded separately; then, for each pair, frames and words attend to each other and a head scores the
query-aware frames. The pair step cannot be computed in advance, so the method is not separable: it re-orders the best
videos of a first stage (``first_stage``; see ``prvr.scoring.rerank``), or scores every pair without one.

``encode_queries`` gives packed words (``blocks.packed_words``), (Q, L, D + 1). Reading order: ``encode_queries``,
``encode_videos``, ``read_pairs`` (bidirectional attention), ``pair_scores``; ``moment_logits`` for checkpoints trained
with times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prvr.backbones.base import Backbone, BackboneConfig, Encoded, FirstStage
from prvr.backbones.blocks.bert import BertLayers, TypedInput
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.moments import Span, best_span_score
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.blocks.packed_words import Words, pack_words, pad_words, unpack_words
from prvr.backbones.blocks.query_aware import MomentHead, PairStates, TemporalEncoder, TransformerSizes, VideoHead
from prvr.backbones.registry import register
from prvr.losses import info_nce
from prvr.tokens import TrainBatch, VideoTokens, as_mask

_NO_ATTENTION = -1e10  # similarity where a frame or a word is padding


_SETTINGS = {  # the authors' names -> ours
    "visual_dim": "visual_width",
    "query_dim": "query_width",
    "max_ctx_len": "frames",
    "max_desc_len": "words",
    "n_heads": "heads",
    "intermediate_size": "inner_width",
    "num_hidden_layers": "layers",
    "head_hidden": "head_width",
    "lw_video_ce": "weight_video",
    "neg_video_num": "negatives",
    "conv_kernel_size": "moment_kernel",
    "min_pred_l": "shortest_moment",
    "max_pred_l": "longest_moment",
}


@dataclass(frozen=True)
class ConquerConfig(BackboneConfig):
    """Defaults: an affordable size for the standard features; the release has width 768, heads 12, inner width 3072."""

    first_stage: str | None = None
    """folder of the run whose ranking is re-ordered; without one every pair is scored"""
    candidates: int = 100
    """how many of the first stage's best videos are re-ordered"""
    ranking: Literal["exclusive", "disjoint"] = "exclusive"
    """score by the video head, or by the best moment's start and end (needs the moment head)"""
    masked_max: bool = True
    """the video head looks at real frames only; false: padded ones take part, as in the authors' code"""
    width: int = 384
    """hidden width D"""
    heads: int = 6
    """attention heads"""
    inner_width: int = 1536
    """inner width of the feed-forwards"""
    layers: int = 1
    """layers of each encoder"""
    head_width: int = 128
    """inner width of the scoring heads"""
    dropout: float = 0.1
    """dropout everywhere"""
    init_std: float = 0.02
    """deviation of the initial weights"""
    negatives: int = 3
    """negatives of each query while training"""
    negatives_from: Literal["first-stage", "batch"] = "first-stage"
    """where negatives come from: the first stage's list (where there is one), or the batch"""
    negative_reach: float = 0.057
    """where that list ends below the right video, as a share of all videos (the release: 1,000 of 17,435)"""
    weight_video: float = 1.0
    """loss weight: the right video against the negatives"""
    moment_head: bool = False
    """hold the layers that predict a moment's start and end; no loss of this toolkit trains them"""
    moment_kernel: int = 5
    """frames that the start and end predictors look at"""
    shortest_moment: int = 0
    """least frames between a moment's start and end"""
    longest_moment: int = 24
    """frames between start and end stay below this"""


@register
class Conquer(Backbone):
    """A re-ranker: contextual, query-aware, one pair at a time."""

    method = "conquer"
    title, year, needs = "CONQUER", 2021, ("first stage",)
    config_type = ConquerConfig
    config: ConquerConfig
    separable = False
    untrained = ("moment_head.",)

    def __init__(self, config: ConquerConfig):
        super().__init__(config)
        c = config
        if c.ranking == "disjoint" and not c.moment_head:
            raise ValueError(
                "conquer ranks by moments (disjoint) only with a moment head: set moment_head, load weights"
            )
        self.query_input = TypedInput(c.query_width, c.width, c.words, 1, c.dropout)
        self.query_encoder = BertLayers(c.width, c.heads, c.inner_width, c.layers, c.dropout)
        self.video_input = TypedInput(c.visual_width, c.width, c.frames, 0, c.dropout)
        self.video_encoder = BertLayers(c.width, c.heads, c.inner_width, c.layers, c.dropout)
        self.similarity = nn.Linear(3 * c.width, 1, bias=False)
        sizes = TransformerSizes(c.width, c.heads, c.inner_width, c.layers, c.dropout)
        self.context = TemporalEncoder(4 * c.width, sizes)
        self.video_head = VideoHead(sizes, c.head_width, c.masked_max)
        self.moment_head = MomentHead(sizes, c.head_width, c.moment_kernel) if c.moment_head else None
        initialise(self, c.init_std)
        if c.first_stage is None:
            self.notice = "conquer without a first stage scores every pair; --model.first-stage RUN re-ranks RUN's best"

    @property
    def width(self) -> int:
        return self.config.width

    @property
    def first_stage(self) -> FirstStage | None:
        c = self.config
        drawn = c.negatives if c.negatives_from == "first-stage" else 0
        return None if c.first_stage is None else FirstStage(c.first_stage, c.candidates, drawn, c.negative_reach)

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Words of each query, packed: (Q, L, Dq), (Q, L) → (Q, L, D + 1)."""
        mask = as_mask(mask)
        return pack_words(self.query_encoder(self.query_input(tokens), mask), mask)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """Frame states; clips are not used. With ``masked_max`` off, padded slots keep their states: the authors'
        score depends on them, and so on how far a batch is padded."""
        mask = as_mask(frame_mask)
        states = self.video_encoder(self.video_input(frames), mask)
        tokens = VideoTokens.of_frames(states, mask)
        return tokens if self.config.masked_max else replace(tokens, frames=states)

    # -- pairs --------------------------------------------------------------------------------------------------------

    def similarities(self, words: Tensor, frames: Tensor) -> Tensor:
        """``w·[frame; word; frame∘word]`` of row-aligned pairs, not concatenated: (P, L, D), (P, M, D) → (P, M, L)."""
        by_frame, by_word, by_product = self.similarity.weight[0].chunk(3)
        product = (frames * by_product) @ words.transpose(1, 2)
        return (frames @ by_frame)[..., None] + (words @ by_word)[:, None] + product

    def read_pairs(self, words: Words, frames: Tensor, mask: Tensor) -> PairStates:
        """Frames and words of row-aligned pairs attend to each other: (P, L, D), (P, M, D), (P, M) → PairStates."""
        real = mask[..., None] & words.mask[:, None]  # (P, M, L)
        similarity = self.similarities(words.states, frames).float().masked_fill(~real, _NO_ATTENTION)
        query = similarity.softmax(2).to(frames.dtype) @ words.states  # (P, M, D): the query for each frame
        weight = similarity.amax(2).softmax(1).to(frames.dtype)
        video = (weight[:, None] @ frames).expand_as(frames)  # the video for the query
        aware = torch.cat([frames, query, frames * query, frames * video], dim=-1)
        return PairStates(aware, self.context(aware, mask), mask)

    def pair_scores(self, pairs: PairStates) -> Tensor:
        """The ranking score of each pair, (P,)."""
        if self.config.ranking == "exclusive":
            return self.video_head(pairs)
        return best_span_score(self._moments()(pairs), self.config.shortest_moment, self.config.longest_moment)

    def read_all(self, queries: Tensor, videos: VideoTokens) -> PairStates:
        """Every query with every video, query by query: (Q, L, D + 1), V videos → Q·V pairs."""
        words = unpack_words(queries.repeat_interleave(len(videos), 0))
        return self.read_pairs(
            words, videos.frames.repeat(len(queries), 1, 1), videos.frame_mask.repeat(len(queries), 1)
        )

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """Packed queries against videos, every pair: (Q, L, D + 1), V videos → (Q, V)."""
        return self.pair_scores(self.read_all(queries, videos)).view(len(queries), len(videos))

    def moment_logits(self, queries: Tensor, videos: VideoTokens) -> Span:
        """Start and end logits of every frame for every pair, (Q, V, M) each."""
        span, shape = self._moments()(self.read_all(queries, videos)), (len(queries), len(videos))
        return Span(span.start.unflatten(0, shape), span.end.unflatten(0, shape))

    def _moments(self) -> MomentHead:
        if self.moment_head is None:
            raise ValueError("this conquer model has no moment head: build it with moment_head=True and load weights")
        return self.moment_head

    def pair_elements(self, words: int, frames: int) -> int:
        c = self.config
        return frames * (20 * c.width + 2 * c.inner_width + 3 * words + 3 * c.heads * frames)

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        """Score each query with its own video and a few negatives, from its first stage's list or from the batch.

        Pairs are scored here and not in ``objective``, so that several processes share the work. Each of them would
        otherwise score every pair of the joined batch.
        """
        videos = self.encode_video_batch(batch.videos)
        queries = self.encode_queries(batch.queries.tokens, batch.queries.mask)
        rows = self.training_candidates(batch, len(videos))  # (N, 1 + S)
        words, drawn = unpack_words(queries.repeat_interleave(rows.shape[1], 0)), rows.flatten()
        scores = self.pair_scores(self.read_pairs(words, videos.frames[drawn], videos.frame_mask[drawn]))
        per_query = {"candidates": scores.view_as(rows)}
        return Encoded(
            pad_words(queries, self.config.words), batch.labels, videos.padded(self.config.frames), per_query
        )

    def training_candidates(self, batch: TrainBatch, videos: int) -> Tensor:
        """Videos that each query is trained with: its own, then its negatives, given or drawn. → (N, 1 + S)."""
        if batch.negatives is None:
            return self.draw_candidates(batch.labels, videos)
        return torch.cat([batch.labels.clamp(min=0)[:, None], batch.negatives], dim=1)

    def draw_candidates(self, labels: Tensor, videos: int) -> Tensor:
        """Each query's own video, then others drawn without repetition, (N,) → (N, 1 + S)."""
        own = labels.clamp(min=0)[:, None]
        keys = torch.rand(len(labels), videos, device=labels.device).scatter(1, own, -1.0)
        return torch.cat([own, keys.topk(min(self.config.negatives, videos - 1), dim=1).indices], dim=1)

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        first = torch.where(encoded.labels >= 0, 0, -1)  # the right video is the first one
        return {"video": info_nce(encoded.per_query["candidates"].float(), first, temperature=1.0)}

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"video": self.config.weight_video}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> ConquerConfig:
        width = config["hidden_dim"]
        release = {"heads": max(1, width // 64), "inner_width": 4 * width, "frames": 100, "weight_video": 0.05}
        settings = {"width": width} | release | renamed(config, _SETTINGS)
        return ConquerConfig(**settings, masked_max=False, moment_head=True)

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> ConquerConfig:
        """A checkpoint may hold the video-scoring head alone."""
        has_head = any(key.startswith("moment_localization_head.") for key in keys)
        return replace(cls.config_from_official(config), moment_head=has_head)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {
            "similarity.weight": "query_aware_feature_learning_layer.similarity_weight.weight"
        }
        keys |= under("query_input", self.query_input.official_keys("encoder.queryEncoder"))
        keys |= under("query_encoder", self.query_encoder.official_keys("encoder.queryEncoder.transformer.encoder"))
        keys |= under("video_input", self.video_input.official_keys("encoder.videoEncoder"))
        keys |= under("video_encoder", self.video_encoder.official_keys("encoder.videoEncoder.transformer.encoder"))
        keys |= under("context", self.context.official_keys("contextual_QAL_feature_learning"))
        keys |= under("video_head", self.video_head.official_keys("video_scoring_head"))
        if self.moment_head is not None:
            keys |= under("moment_head", self.moment_head.official_keys("moment_localization_head"))
        return keys
