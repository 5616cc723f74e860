"""RAL: GMMFormer v2 with a second query branch, whose words meet frames, and with Gaussian proxies in training.

Reading order: ``encode_queries`` (one vector for clips, all words for frames), ``frame_scores`` (each word's best
frame, by the word's confidence), ``distributions`` (a video's frames, and the words of all its queries, as Gaussians),
``objective``.

A query keeps its words, so ``encode_queries`` gives packed words (``blocks.packed_words``), the vector first:
(Q, 1 + L, D + 1). Words meet frames pair by pair: the method is not separable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.attention import AttentionBank
from prvr.backbones.blocks.inputs import Projection
from prvr.backbones.blocks.interaction import best_frames, softmax_weights
from prvr.backbones.blocks.official import OfficialKey, affine, renamed, under
from prvr.backbones.blocks.packed_words import UnpackedQuery, pack_query, pad_words, unpack_query
from prvr.backbones.blocks.variational import GaussianHeads, gaussian_of
from prvr.backbones.gmmformer_v2 import GMMFormerV2, GMMFormerV2Config
from prvr.backbones.registry import register
from prvr.backbones.scores import max_cosine, max_dot
from prvr.losses import distribution_alignment, proxy_matching
from prvr.tokens import TrainBatch, VideoTokens, as_mask

_SETTINGS = {  # constants of the authors' code, as goldens name them -> ours
    "pm_weight": "weight_proxies",
    "da_weight": "weight_distribution",
    "proxies": "proxies",
    "support_slots_per_word": "support_queries",
}


@dataclass(frozen=True)
class RALConfig(GMMFormerV2Config):
    """Defaults: GMMFormer v2's Charades-STA numbers; RAL releases settings for ActivityNet and TVR only."""

    proxies: int = 6
    """samples of each Gaussian"""
    support: Literal["padded", "words"] = "padded"
    """what the Gaussian heads read: padded rows too, as in the authors' code; or only real words and frames"""
    support_queries: int = 26
    """queries of a video that there are rows for, where padded rows are read"""
    weight_proxies: float = 4e-3
    """loss weight: matching of proxies"""
    weight_distribution: float = 2.5e-4
    """loss weight: alignment of the Gaussians"""


@register
class RAL(GMMFormerV2):
    """Clips meet the query's vector, frames meet its words; frames are the local evidence."""

    method = "ral"
    title, year = "RAL", 2025
    config_type = RALConfig
    config: RALConfig
    separable = False
    has_words = False  # its queries are words already

    def __init__(self, config: RALConfig):
        super().__init__(config)
        c = config
        self.word_input = Projection(c.query_width, c.width, c.input_dropout)
        self.word_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.word_weight = nn.Sequential(nn.Linear(c.width, c.width), nn.ReLU(), nn.Linear(c.width, 1))
        self.video_heads, self.text_heads = GaussianHeads(c.width), GaussianHeads(c.width)  # read in training only
        self.initialise()

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Vector and words of each query, packed: (Q, L, Dq), (Q, L) → (Q, 1 + L, D + 1)."""
        mask = as_mask(mask)
        return pack_query(self.query_vectors(tokens, mask), self.query_words(tokens, mask), mask)

    def query_words(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Words for the frame branch, (Q, L, Dq), (Q, L) → (Q, L, D). Positions are the vector branch's."""
        return self.word_encoder(self.query_input.position(self.word_input(tokens)), mask)[0]

    # -- scores -------------------------------------------------------------------------------------------------------

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        cosines = self._cosines(unpack_query(queries), videos)
        return self.config.clip_weight * cosines["clip"] + self.config.frame_weight * cosines["frame"]

    def _cosines(self, query: UnpackedQuery, videos: VideoTokens) -> dict[str, Tensor]:
        words, frames = F.normalize(query.words, dim=-1), F.normalize(videos.frames, dim=-1)
        clip = max_cosine(query.vector, videos.clips.to(query.vector.dtype))
        return {"clip": clip, "frame": self.frame_scores(words, query.mask, frames)}

    def frame_scores(self, words: Tensor, mask: Tensor, frames: Tensor) -> Tensor:
        """Each word's best frame, by the word's confidence, (Q, L, D), (Q, L), (V, M, D) → (Q, V).

        Padded slots are zero and take part: a word finds at least 0 in a video with fewer frames than slots.
        """
        return best_frames(words, softmax_weights(self.word_weight(words), mask), frames.to(words.dtype))

    def word_curve(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """The cosines of a frame with all words, by the words' confidences."""
        query = unpack_query(queries)
        words, frames = F.normalize(query.words, dim=-1), F.normalize(videos.frames, dim=-1)
        mixed = torch.einsum("ql,qld->qd", softmax_weights(self.word_weight(words), query.mask), words)
        return torch.einsum("qd,vmd->qvm", mixed, frames)

    def pair_elements(self, words: int, frames: int) -> int:
        return 2 * words * frames

    def branch_cosines(self, encoded: Encoded) -> dict[str, Tensor]:
        return self._cosines(unpack_query(encoded.queries.float()), encoded.videos.to(torch.float32))

    def branch_dots(self, encoded: Encoded) -> dict[str, Tensor]:
        query, videos = unpack_query(encoded.queries.float()), encoded.videos.to(torch.float32)
        frame = self.frame_scores(query.words, query.mask, videos.frames)
        return {"clip": max_dot(query.vector, videos.clips), "frame": frame}

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        tokens, mask, labels = batch.queries.tokens, as_mask(batch.queries.mask), batch.labels
        scored, shaped = self.encode_queries_twice(tokens, mask)
        words, videos = self.query_words(tokens, mask), self.encode_video_batch(batch.videos)
        with torch.autocast(tokens.device.type, enabled=False):
            per_video = self.distributions(words.float(), mask, labels, videos.to(torch.float32))
        queries = pad_words(pack_query(scored, words, mask), self.config.words + 1)
        return Encoded(queries, labels, videos, {"shaped": shaped}, per_video)

    def distributions(self, words: Tensor, mask: Tensor, labels: Tensor, videos: VideoTokens) -> dict[str, Tensor]:
        """Mean and log-spread of each video's words and of its frames, (V, D) each.

        The words of a video are those of all its queries. In the authors' code they lie in a table with rows for 26
        queries as long as the longest of the batch; padded and empty rows are attended, and an empty one has logit 0.
        """
        padded, length = self.config.support == "padded", words.shape[1]
        own = labels == torch.arange(len(videos), device=labels.device)[:, None]  # (V, N)
        real = own[:, :, None] & mask  # (V, N, L)
        pooled = torch.einsum("vnl,nld->vd", real.to(words.dtype), words) / real.sum((1, 2)).clamp(min=1)[:, None]
        read = own[:, :, None].expand_as(real) if padded else real
        empty = length * (self.config.support_queries - own.sum(1)).clamp(min=0) * padded
        text = gaussian_of(self.text_heads, words.flatten(0, 1), read.flatten(1), empty, pooled)
        frames, frame_mask = videos.frames, videos.frame_mask
        mean = F.normalize(frames, dim=-1).sum(1) / frame_mask.sum(1).clamp(min=1)[:, None]
        empty = (~frame_mask).sum(1) * padded
        video = gaussian_of(self.video_heads, frames, frame_mask, empty, F.normalize(mean, dim=-1))
        names = ("text_mean", "text_log_spread", "video_mean", "video_log_spread")
        return dict(zip(names, (*text, *video), strict=True))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        terms = super().objective(encoded, epoch=epoch, generator=generator)
        texts, videos = (self._sampled(encoded, side, generator) for side in ("text", "video"))
        spreads = [encoded.per_video[f"{side}_log_spread"] for side in ("video", "text")]
        terms["proxy_matching"] = proxy_matching(videos, texts)
        terms["distribution"] = distribution_alignment(videos.mean(1), spreads[0], texts.mean(1), spreads[1])
        return terms

    def _sampled(self, encoded: Encoded, side: str, generator: torch.Generator | None) -> Tensor:
        """Samples of one side's Gaussians, (V, K, D)."""
        mean, log_spread = encoded.per_video[f"{side}_mean"], encoded.per_video[f"{side}_log_spread"]
        shape = (len(mean), self.config.proxies, mean.shape[1])
        noise = torch.randn(shape, device=mean.device, dtype=mean.dtype, generator=generator)
        return mean[:, None] + log_spread.exp()[:, None] * noise

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        return super().loss_weights | {"proxy_matching": c.weight_proxies, "distribution": c.weight_distribution}

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> RALConfig:
        settings = vars(GMMFormerV2.config_from_official(config))
        return RALConfig(**settings | renamed(config, _SETTINGS))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys()
        keys |= under("word_input", self.word_input.official_keys("frame_branch_query_proj"))
        keys |= under("word_encoder", self.word_encoder.official_keys("frame_branch_query_encoder"))
        keys |= affine("word_weight.0", "text_weight_fc.0") | affine("word_weight.2", "text_weight_fc.2")
        keys |= under("video_heads", self.video_heads.head_keys("pie_net_video", "uncertain_net_video"))
        return keys | under("text_heads", self.text_heads.head_keys("pie_net_text", "uncertain_net_text"))
