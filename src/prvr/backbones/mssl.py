"""MS-SL: every stretch of clips is a proposal; the best one says which frames to look at.

Reading order: ``window_averages`` (clips → proposals), ``encode_videos``, ``base_score`` (best proposal, then frames
attended under its guidance), ``objective``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.attention import DenseAttentionBank
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.registry import register
from prvr.backbones.trunk import Trunk, TrunkConfig, trunk_settings, video_tokens
from prvr.losses import pick_negatives, square_nce, square_triplet, triplet, two_way_nce
from prvr.tokens import TrainBatch, VideoTokens

_NEVER = 1_000_000  # an epoch that no run reaches
_TINY = 1e-12


@dataclass(frozen=True)
class MSSLConfig(TrunkConfig):
    """Defaults are the Charades-STA configuration of the MS-SL release."""

    dropout: float = 0.1
    """dropout inside blocks"""
    input_dropout: float = 0.1
    """dropout on inputs"""
    clip_weight: float = 0.5
    """share of the clip branch in the score"""
    frame_weight: float = 0.5
    """share of the frame branch in the score"""


def window_averages(clips: int) -> Tensor:
    """Which clips each proposal averages, (P, C): all stretches of 1 clip, then of 2, …, each by its start.

    >>> window_averages(2)
    tensor([[1.0000, 0.0000],
            [0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    place = torch.arange(clips)
    start, length = torch.tensor([(s, k) for k in range(1, clips + 1) for s in range(clips - k + 1)]).T[..., None]
    return ((place >= start) & (place < start + length)) / length


@register
class MSSL(Trunk):
    """Not separable: the clip score is a maximum of cosines, the frame score the cosine with the guided vector of
    the proposal that won that maximum. Both tables (528 proposals and 528 guided vectors per video) are
    independent of the query, but the second is read where the *first* peaks. A gallery's engines compute sums of maxima
    over fixed token sets, which cannot express that. So pairs are scored together, and ``base_score`` computes both
    tables once per video. Frozen transfer needs no gallery: queries are one vector, and frames are the local evidence.
    """

    method = "mssl"
    title, year = "MS-SL", 2022
    config_type = MSSLConfig
    config: MSSLConfig
    separable = False
    takes_residual = False
    averages: Tensor

    def __init__(self, config: MSSLConfig):
        super().__init__(config, DenseAttentionBank)
        c = config
        self.clip_encoder = DenseAttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.frame_encoder = DenseAttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.guide_key = nn.Linear(c.width, c.width, bias=False)
        self.guide_value = nn.Linear(c.width, c.width, bias=False)
        self.register_buffer("averages", window_averages(c.clips), persistent=False)  # (P, C)
        self.initialise()

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        clip_tokens, frame_tokens, mask = self.embed_videos(frames, frame_mask, clips, all_slots=False)
        return video_tokens(self.frame_encoder(frame_tokens, mask)[0], mask, self.clip_encoder(clip_tokens)[0])

    # -- scores -------------------------------------------------------------------------------------------------------

    def proposals(self, clips: Tensor) -> Tensor:
        """Mean of every stretch of clips, (…, C, D) → (…, P, D)."""
        return self.averages.to(clips.dtype) @ clips

    def proposal_dots(self, clip_dots: Tensor) -> Tensor:
        """Dot products with proposals from those with clips, (…, C) → (…, P): an average is linear."""
        return clip_dots @ self.averages.to(clip_dots.dtype).T

    def guided(self, guides: Tensor, frames: Tensor, frame_mask: Tensor) -> Tensor:
        """Frames read under the guidance of proposals, (V, G, D), (V, M, D), (V, M) → (V, G, D). Logits are not scaled.

        The guide is carried through the key map, and the mean of frames through the value map: neither has to visit
        every frame.
        """
        logits = (guides @ self.guide_key.weight) @ frames.transpose(1, 2)  # (V, G, M)
        logits = logits.masked_fill(~frame_mask[:, None], torch.finfo(logits.dtype).min)
        return self.guide_value(logits.softmax(-1) @ frames)

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """A proposal's guided vector does not depend on the query: each video computes it once, each pair picks one."""
        with torch.autocast(queries.device.type, enabled=False):
            unit = F.normalize(queries, dim=-1)
            clips, frames = videos.clips.to(unit.dtype), videos.frames.to(unit.dtype)
            proposals = self.proposals(clips)  # (V, P, D)
            cosine = self.proposal_dots(torch.einsum("qd,vcd->qvc", unit, clips)) / _length(proposals)
            clip_score, key = cosine.max(-1)  # (Q, V)
            guided = F.normalize(self.guided(proposals, frames, videos.frame_mask), dim=-1)
            chosen = guided[torch.arange(len(videos), device=key.device), key]  # (Q, V, D)
            frame_score = torch.einsum("qd,qvd->qv", unit, chosen)
        return self.config.clip_weight * clip_score + self.config.frame_weight * frame_score

    def pair_elements(self, words: int, frames: int) -> int:
        return 2 * len(self.averages) + self.width

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        queries = self.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos = self.encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        with torch.autocast(queries.device.type, enabled=False):
            guided = self.own_guided(queries.float(), batch.labels, videos.to(torch.float32))
        # Several processes join their videos, so all of them fill the same number of slots.
        return Encoded(queries, batch.labels, videos.padded(self.config.frames), {"guided": guided})

    def own_guided(self, queries: Tensor, labels: Tensor, videos: VideoTokens) -> Tensor:
        """The guided vector of each query in its own video, (N, D), (N,) → (N, D)."""
        own = videos[labels.clamp(min=0)]
        length = _length(self.proposals(videos.clips))[labels.clamp(min=0)]  # (N, P)
        with torch.no_grad():
            key = (self.proposal_dots(torch.einsum("nd,ncd->nc", queries, own.clips)) / length).argmax(-1)  # (N,)
        guide = self.averages[key][:, None] @ own.clips  # (N, 1, D)
        return self.guided(guide, own.frames, own.frame_mask).squeeze(1)

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, labels, queries = self.config, encoded.labels, encoded.queries.float()
        clips, guided, pool = encoded.videos.clips.float(), encoded.per_query["guided"].float(), c.pool_at(epoch)
        dots = self.proposal_dots(torch.einsum("nd,vcd->nvc", queries, clips))  # (N, V, P)
        cosine = (dots / _length(self.proposals(clips))).amax(-1) / _length(queries)[:, None]
        negatives = pick_negatives(cosine, labels, hard_pool=pool, generator=generator)
        between = F.normalize(queries, dim=-1) @ F.normalize(guided, dim=-1).T  # (N, N)
        return {
            "nce_clip": two_way_nce(dots.amax(-1), labels),
            "triplet_clip": triplet(cosine, labels, c.margin, negatives),
            "nce_frame": square_nce(queries @ guided.T, labels),
            "triplet_frame": square_triplet(between, labels, c.margin, hard_pool=pool, generator=generator),
        }

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> MSSLConfig:
        settings = trunk_settings(config)
        settings |= renamed(config, {"clip_nce_factor": "weight_nce_clip", "frame_nce_factor": "weight_nce_frame"})
        if settings.get("hard_negative_epoch", 0) < 0:  # the authors' −1 means never
            settings["hard_negative_epoch"] = _NEVER
        return MSSLConfig(**settings)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys()
        keys |= {"guide_key.weight": "mapping_linear.0.weight", "guide_value.weight": "mapping_linear.1.weight"}
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder"))


def _length(vectors: Tensor) -> Tensor:
    """(…, D) → (…), never 0."""
    return vectors.norm(dim=-1).clamp(min=_TINY)
