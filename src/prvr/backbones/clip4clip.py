"""CLIP4Clip: one text vector against one video vector, and four ways to make the second of frames.

``meanP`` averages frames; ``seqLSTM`` and ``seqTransf`` let them see each other first; ``tightTransf`` puts the text
vector among the frames and reads the score off it, so that each query–video pair is computed separately.

The heads are the authors'. Their CLIP towers are replaced by small trainable ones over the standard features
(``towers = "features"``), or left out where features come from CLIP itself (``towers = "none"``): then the last word's
vector is the query. Reading order: ``encode_queries``, ``encode_videos``, ``video_vectors``, ``base_score``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.base import Backbone, Encoded
from prvr.backbones.blocks.clip import ClipTransformer, bound_logit_scale, mean_direction, quick_gelu
from prvr.backbones.blocks.initialise import initialise
from prvr.backbones.blocks.official import OfficialKey, affine, renamed, under
from prvr.backbones.blocks.towers import Towers
from prvr.backbones.clip_family import ClipFamilyConfig, family_settings
from prvr.backbones.registry import register
from prvr.backbones.scores import TokenSet
from prvr.losses import two_way_nce
from prvr.tokens import TrainBatch, VideoTokens, as_mask

Head: TypeAlias = Literal["meanP", "seqLSTM", "seqTransf", "tightTransf"]
_HEADS: dict[Head, str] = {"seqTransf": "transformerClip.", "seqLSTM": "lstm_visual.", "tightTransf": "cross."}


@dataclass(frozen=True)
class CLIP4ClipConfig(ClipFamilyConfig):
    """Defaults: the release's heads at CLIP's width, over small towers for the standard features."""

    head: Head = "seqTransf"
    """how frames become a score; tightTransf scores each pair separately"""


class TightHead(nn.Module):
    """Text vector and frames through one transformer; the text's place holds the score. (P, D), (P, M, D) → (P,)."""

    def __init__(self, config: CLIP4ClipConfig):
        super().__init__()
        c = config
        self.transformer = ClipTransformer(
            c.width, c.heads, c.layers, c.positions, c.dropout, c.norm_epsilon, c.masked_logit
        )
        self.pool_norm = nn.LayerNorm(c.width, c.norm_epsilon)
        self.pool = nn.Linear(c.width, c.width)
        self.similarity = nn.Linear(c.width, 1)

    def first_token(self, text: Tensor, frames: Tensor, mask: Tensor) -> Tensor:
        """The text's state after the last block, (P, D)."""
        sequence = torch.cat([text[:, None].to(frames.dtype), frames], dim=1)  # (P, 1 + M, D)
        return self.transformer(sequence, F.pad(mask, (1, 0), value=True))[:, 0]

    def pooled(self, first: Tensor) -> Tensor:
        return quick_gelu(self.pool(self.pool_norm(first)))

    def forward(self, text: Tensor, frames: Tensor, mask: Tensor) -> Tensor:
        return self.similarity(self.pooled(self.first_token(text, frames, mask))).squeeze(-1)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = self.transformer.official_keys("cross.embeddings.position_embeddings", "cross.transformer.resblocks")
        keys = under("transformer", keys)
        keys |= affine("pool_norm", "cross.pooler.ln_pool") | affine("pool", "cross.pooler.dense")
        return keys | affine("similarity", "similarity_dense")


@register
class CLIP4Clip(Backbone):
    """A whole video as one vector; the text-to-video baseline."""

    method = "clip4clip"
    title, year = "CLIP4Clip", 2022
    config_type = CLIP4ClipConfig
    config: CLIP4ClipConfig
    # A checkpoint may carry CLIP's towers and the other heads.
    official_unused = (
        "clip.", "frame_position_embeddings.", "transformerClip.", "lstm_visual.", "cross.", "similarity_dense.",
    )  # fmt: skip

    def __init__(self, config: CLIP4ClipConfig):
        super().__init__(config)
        c = config
        self.separable = c.head != "tightTransf"
        self.towers = Towers(c.towers, c.query_width, c.visual_width, c.width, c.heads, c.words, c.dropout)
        self.temporal: nn.Module | None = None
        if c.head == "seqLSTM":
            self.temporal = nn.LSTM(c.width, c.width, batch_first=True)
        elif c.head == "seqTransf":
            self.temporal = ClipTransformer(
                c.width, c.heads, c.layers, c.positions, 0.0, c.norm_epsilon, c.masked_logit
            )
        self.tight = TightHead(c) if c.head == "tightTransf" else None
        self.untrained = () if self.tight is None else ("logit_scale",)
        self.logit_scale = nn.Parameter(torch.tensor(c.logit_scale))
        initialise(self, c.init_std)

    @property
    def width(self) -> int:
        return self.config.width

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.towers.text(tokens, as_mask(mask)).vector

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """Frames after the temporal module, not yet normalised; clips are not used."""
        mask = as_mask(frame_mask)
        x = self.towers.frames(frames)
        return VideoTokens.of_frames(x if self.temporal is None else x + self.over_time(x, mask), mask)

    def over_time(self, frames: Tensor, mask: Tensor) -> Tensor:
        """The temporal module's residual for each frame, (V, M, D)."""
        if isinstance(self.temporal, nn.LSTM):
            # One direction: padding after the last real frame cannot influence it, so no lengths are needed.
            return self.temporal(frames)[0] * mask[..., None].to(frames.dtype)
        assert self.temporal is not None
        return self.temporal(frames, mask)

    @staticmethod
    def video_vectors(videos: VideoTokens) -> Tensor:
        """The mean of a video's unit frames, at unit length, (V, D)."""
        return mean_direction(videos.frames, videos.frame_mask)

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        if self.tight is not None:
            return super().token_sets(videos)
        return (TokenSet(float(self.logit_scale.detach().exp()), self.video_vectors(videos)[:, None]),)

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """The authors' logits: scaled cosines, or the tight head's output for every pair."""
        if self.tight is None:
            return self.logit_scale.exp() * (F.normalize(queries, dim=-1) @ self.video_vectors(videos).T)
        count = len(videos)
        frames, mask = (t.repeat(len(queries), *[1] * (t.ndim - 1)) for t in (videos.frames, videos.frame_mask))
        return self.tight(queries.repeat_interleave(count, 0), frames, mask).view(len(queries), count)

    def pair_elements(self, words: int, frames: int) -> int:
        c, length = self.config, frames + 1
        return 10 * length * c.width + c.heads * length * length

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        bound_logit_scale(self.logit_scale)
        videos = self.encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        queries = self.encode_queries(batch.queries.tokens, batch.queries.mask)
        return Encoded(queries, batch.labels, videos.padded(self.config.frames))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        scores = self.base_score(encoded.queries.float(), encoded.videos.to(torch.float32))
        return {"contrast": two_way_nce(scores, encoded.labels)}

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"contrast": 0.5}  # the mean of both directions

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> CLIP4ClipConfig:
        settings = family_settings(config, "layer_norm_eps") | renamed(config, {"sim_header": "head"})
        return CLIP4ClipConfig(**settings, frames=settings["positions"] - 1)

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> CLIP4ClipConfig:
        """Where the configuration names no head, the checkpoint's weights decide; of several, seqTransf."""
        settings = cls.config_from_official(config)
        if "sim_header" in config:
            return settings
        present = [head for head, prefix in _HEADS.items() if any(key.startswith(prefix) for key in keys)]
        head: Head = "seqTransf" if "seqTransf" in present else (present or ["meanP"])[0]
        return replace(settings, head=head)

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {"logit_scale": "clip.logit_scale"}
        keys |= under("towers", self.towers.official_keys())
        if isinstance(self.temporal, ClipTransformer):
            blocks = self.temporal.official_keys("frame_position_embeddings", "transformerClip.resblocks")
            keys |= under("temporal", blocks)
        elif isinstance(self.temporal, nn.LSTM):
            keys |= {f"temporal.{name}": f"lstm_visual.{name}" for name, _ in self.temporal.named_parameters()}
        return keys if self.tight is None else keys | under("tight", self.tight.official_keys())
