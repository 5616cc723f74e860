"""Cap4Video: every word meets every frame, and auxiliary captions help where a video has them.

Captions written by a machine are used twice: frames attend to them (``CaptionReader``), and a query is compared with
them directly; both scores are fused. The branches are trained together, or one after the other as the authors do
(``branches``). Without captions (the standard features have none) the transformer over frames and
the weighted token-wise interaction remain. Results must then be labelled "without captions".

A query keeps its words, so ``encode_queries`` gives packed words (``blocks.packed_words``), the sentence vector first:
(Q, 1 + L, D + 1). The interaction needs each pair: the method is not separable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.base import Backbone, Encoded
from prvr.backbones.blocks.captions import CaptionPool, CaptionReader
from prvr.backbones.blocks.clip import ClipTransformer, bound_logit_scale, mean_direction
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.interaction import softmax_weights, token_interaction, uniform_weights
from prvr.backbones.blocks.official import OfficialKey, affine, renamed, under
from prvr.backbones.blocks.packed_words import UnpackedQuery, pack_query, pad_words, unpack_query
from prvr.backbones.blocks.towers import Text, Towers
from prvr.backbones.clip_family import ClipFamilyConfig, family_settings
from prvr.backbones.registry import register
from prvr.losses import two_way_nce
from prvr.tokens import TrainBatch, VideoBatch, VideoTokens, as_mask

_READER = "co_connetion_transformer_model_block"  # the authors' spelling


@dataclass(frozen=True)
class Cap4VideoConfig(ClipFamilyConfig):
    """Defaults: the release's numbers over small towers for the standard features."""

    captions: bool | None = None
    """read auxiliary captions [None: where the data has them]; without, call it "Cap4Video without captions\""""
    caption_slots: int = 30
    """most captions per video"""
    caption_layers: int = 2
    """layers of the transformer over captions"""
    caption_pooling: Literal["transformer", "mean", "first"] = "transformer"
    """how captions become one vector: transformer and mean, plain mean, or the first caption"""
    branches: Literal["both", "video", "caption"] = "both"
    """what is trained: both branches together; or, as the authors do, first the query–video branch, then, from that run
    (prvr train --from), the query–caption branch on its frozen text tower"""
    caption_pairs: bool = True
    """while training, one caption of each video joins its queries"""
    video_weight: float = 0.73
    """share of the query-video score (chosen by the authors on MSR-VTT)"""
    caption_weight: float = 0.27
    """share of the query-caption score"""
    interaction: Literal["wti", "ti", "dp"] = "wti"
    """weighted token-wise, plain token-wise, or sentence vector against mean frame"""
    masked_max: bool = True
    """maxima over real words and frames only; false: padded ones take part with 0, as in the authors' code"""

    @property
    def auxiliary_captions(self) -> int:
        return self.caption_slots if self.captions else 0


@dataclass(frozen=True)
class CaptionedTokens(VideoTokens):
    """Frames, and a video's captions as one unit vector (zero where it has none)."""

    captions: Tensor | None = None  # (V, D)


@register
class Cap4Video(Backbone):
    """Token-wise interaction with frames that have read captions."""

    method = "cap4video"
    title, year, needs = "Cap4Video", 2023, ("captions",)
    config_type = Cap4VideoConfig
    config: Cap4VideoConfig
    separable = False
    official_unused = (  # CLIP's towers, half of the co-attention, and layers that the authors allocate but never call
        "clip.", f"{_READER}.", "sentence_position_embeddings.", "caption_transformer_encoder.", "fuse_weight_fc.",
        "query_weight_fc.", "text_position_embeddings.", "caption_transformer_layer.",
    )  # fmt: skip

    def __init__(self, config: Cap4VideoConfig):
        super().__init__(config)
        c = config
        self.towers = Towers(c.towers, c.query_width, c.visual_width, c.width, c.heads, c.words, c.dropout)
        self.reader = CaptionReader(c.width, c.heads) if c.captions else None
        pooled = c.captions and c.branches != "video"
        self.caption_pool = CaptionPool(c.width, c.heads, c.caption_layers, c.caption_slots) if pooled else None
        self.temporal = ClipTransformer(c.width, c.heads, c.layers, c.positions, 0.0, c.norm_epsilon, c.masked_logit)
        self.word_weight, self.frame_weight = (
            nn.Sequential(nn.Linear(c.width, c.width), nn.ReLU(), nn.Linear(c.width, 1)) for _ in range(2)
        )
        self.logit_scale = nn.Parameter(torch.tensor(c.logit_scale))
        initialise(self, c.init_std)
        if not c.captions:
            self.notice = "Cap4Video without captions: no auxiliary captions are read, report it under this name"
            if c.branches != "both":
                raise ValueError(f"branches = {c.branches} needs auxiliary captions, and none are read")
        elif c.branches == "video":
            self.notice = (
                "Cap4Video's query–video branch alone; `prvr train --from RUN --model.branches caption` adds the other"
            )
        self.starts_from_run = c.branches == "caption"
        self.untrained = () if c.interaction == "wti" else ("word_weight.", "frame_weight.")
        if c.branches == "caption":
            self.untrained = ("towers.", "reader.", "temporal.", "word_weight.", "frame_weight.")
        if c.caption_pooling != "transformer":
            self.untrained += ("caption_pool.",)

    @property
    def width(self) -> int:
        return self.config.width

    def train(self, mode: bool = True) -> Cap4Video:
        """What is frozen also runs without dropout."""
        super().train(mode and self.config.branches != "caption")
        if self.caption_pool is not None:
            self.caption_pool.train(mode)
        self.training = mode
        return self

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Sentence vector and words of each query, packed: (Q, L, Dq), (Q, L) → (Q, 1 + L, D + 1)."""
        mask = as_mask(mask)
        text = self.towers.text(tokens, mask)
        return pack_query(text.vector, text.words, mask)

    def encode_videos(
        self,
        frames: Tensor,
        frame_mask: Tensor,
        clips: Tensor,
        captions: Tensor | None = None,
        caption_mask: Tensor | None = None,
    ) -> CaptionedTokens:
        """(V, M, Dv), (V, M), captions (V, T, L, Dq), (V, T, L) → frames after the temporal module and captions as one
        vector. Clips are not used."""
        if self.reader is None:
            return self._encode(frames, as_mask(frame_mask), None)
        if captions is None or caption_mask is None:
            raise ValueError(
                "this cap4video model reads auxiliary captions and was given none: pass captions and caption_mask with "
                "the videos, or train one without (--model.captions False)"
            )
        return self._encode(frames, as_mask(frame_mask), self.read_captions(captions, as_mask(caption_mask)))

    def encode_video_batch(self, batch: VideoBatch) -> CaptionedTokens:
        return self.encode_videos(batch.frames, batch.frame_mask, batch.clips, batch.captions, batch.caption_mask)

    def read_captions(self, captions: Tensor, mask: Tensor) -> tuple[Text, Tensor]:
        """Captions after the text tower, words (V, T, L, D) and vectors (V, T, D); and which slots hold one, (V, T)."""
        flat = self.towers.text(captions.flatten(0, 1), mask.flatten(0, 1))
        shape = captions.shape[:2]
        return Text(flat.words.unflatten(0, shape), flat.vector.unflatten(0, shape)), mask.any(-1)

    def _encode(self, frames: Tensor, mask: Tensor, read: tuple[Text, Tensor] | None) -> CaptionedTokens:
        x, pooled = self.towers.frames(frames), None
        if read is not None:
            assert self.reader is not None
            text, known = read
            x = self.reader(x, text.vector, known)
            if self.caption_pool is not None:
                # The authors train this branch alone on a frozen text tower: no gradient flows back into ours.
                pooled = self.caption_pool(text.vector.detach(), known, self.config.caption_pooling)
        tokens = VideoTokens.of_frames(x + self.temporal(x, mask), mask)
        return CaptionedTokens(tokens.frames, tokens.frame_mask, tokens.clips, captions=pooled)

    # -- scores -------------------------------------------------------------------------------------------------------

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """Packed queries against videos, (Q, V): both branches fused, or the query–video score alone."""
        c, query = self.config, unpack_query(queries)
        video = self.video_scores(query, videos)
        captions = self.caption_scores(query.vector, videos)
        return video if captions is None else c.video_weight * video + c.caption_weight * captions

    def video_scores(self, query: UnpackedQuery, videos: VideoTokens) -> Tensor:
        """Words against frames, in [−1, 1], (Q, V)."""
        c = self.config
        if c.interaction == "dp":
            return F.normalize(query.vector, dim=-1) @ mean_direction(videos.frames, videos.frame_mask).T
        if c.interaction == "wti":
            of_words = softmax_weights(self.word_weight(query.words), query.mask)
            of_frames = softmax_weights(self.frame_weight(videos.frames), videos.frame_mask)
        else:
            of_words, of_frames = uniform_weights(query.mask), uniform_weights(videos.frame_mask)
        words, frames = (query.words, query.mask, of_words), (videos.frames, videos.frame_mask, of_frames)
        return token_interaction(*words, *frames, masked_max=c.masked_max)

    @staticmethod
    def caption_scores(vectors: Tensor, videos: VideoTokens) -> Tensor | None:
        """Sentence vectors against captions, in [−1, 1], (Q, V); None without captions."""
        captions = videos.captions if isinstance(videos, CaptionedTokens) else None
        return None if captions is None else F.normalize(vectors, dim=-1) @ captions.T

    def pair_elements(self, words: int, frames: int) -> int:
        return 3 * words * frames

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        bound_logit_scale(self.logit_scale)
        c, videos, labels = self.config, batch.videos, batch.labels
        queries = pad_words(self.encode_queries(batch.queries.tokens, batch.queries.mask), c.words + 1)
        if self.reader is None or videos.captions is None or videos.caption_mask is None:
            tokens = self.encode_video_batch(videos)
        else:
            mask = as_mask(videos.caption_mask)
            read = self.read_captions(videos.captions, mask)
            tokens = self._encode(videos.frames, as_mask(videos.frame_mask), read)
            if c.caption_pairs and c.branches != "caption":
                extra, owners = self._one_caption_each(*read, mask)
                queries = torch.cat([queries, pad_words(extra, c.words + 1)])
                labels = torch.cat([labels, owners])
        return Encoded(queries, labels, tokens.padded(c.frames))

    def _one_caption_each(self, text: Text, known: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """One caption of each video as a query, packed, and whose it is; a video without captions gets padding."""
        drawn = torch.rand(known.shape, device=known.device).masked_fill(~known, -1.0).argmax(1)
        rows = torch.arange(len(known), device=known.device)
        packed = pack_query(text.vector[rows, drawn], text.words[rows, drawn], mask[rows, drawn])
        return packed, torch.where(known.any(1), rows, -1)

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        query, videos = unpack_query(encoded.queries.float()), encoded.videos.to(torch.float32)
        scale = self.logit_scale.exp()
        terms = {}
        if self.config.branches != "caption":
            terms["video"] = two_way_nce(scale * self.video_scores(query, videos), encoded.labels)
        captions = self.caption_scores(query.vector.detach(), videos)
        if captions is not None:
            terms["caption"] = two_way_nce(scale * captions, encoded.labels)
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"video": 0.5, "caption": 0.5}  # the mean of both directions

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> Cap4VideoConfig:
        names = {"num_captions": "caption_slots", "fusion_video": "video_weight", "fusion_caption": "caption_weight"}
        settings = family_settings(config, "layer_norm_eps_temporal")
        settings |= renamed(config, names | {"interaction": "interaction"})
        return Cap4VideoConfig(**settings, frames=settings["positions"], captions=True, masked_max=False)

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> Cap4VideoConfig:
        """A checkpoint without the layers that read captions is one of the query–video model alone."""
        return replace(cls.config_from_official(config), captions=any(key.startswith(_READER) for key in keys))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {"logit_scale": "clip.logit_scale"}
        keys |= under("towers", self.towers.official_keys())
        blocks = self.temporal.official_keys("frame_position_embeddings", "transformerClip.resblocks")
        keys |= under("temporal", blocks)
        for ours, theirs in (("word_weight", "text_weight_fc"), ("frame_weight", "video_weight_fc")):
            keys |= affine(f"{ours}.0", f"{theirs}.0") | affine(f"{ours}.2", f"{theirs}.2")
        if self.reader is not None:
            keys |= under("reader", self.reader.official_keys(f"{_READER}.0"))
        if self.caption_pool is not None:
            pool = self.caption_pool.official_keys("sentence_position_embeddings", "caption_transformer_encoder.layers")
            keys |= under("caption_pool", pool)
        return keys
