"""Dataclasses of tensors that several packages exchange: batches of features, tokens of videos, evidence.

Letters of shapes mean the same everywhere: Q queries, V videos, L words, M frames, C clips, R registers, D width.
A mask is True at real elements and False at padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

_Record = TypeVar("_Record", bound="TensorRecord")
_Tokens = TypeVar("_Tokens", bound="VideoTokens")

SAME_WORDS = 0.9999  # cosine of two queries' meanings from which on their words are the same, with room for rounding
FeatureRule: TypeAlias = Literal["standard", "merged", "unnormalised"]  # how frames are resampled (prvr.data.rules)


@dataclass(frozen=True)
class TensorRecord:
    """Base of records whose tensors share their first axis, and are moved, sliced and joined together.

    Fields that are not tensors are copied.
    """

    def tensors(self) -> dict[str, Tensor]:
        """The fields that hold a tensor, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def map(self: _Record, change: Callable[[Tensor], Tensor]) -> _Record:
        """A copy of the record with a function applied to every tensor."""
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors().items()}
        return replace(self, **changed)

    def to(self: _Record, *args: Any, **kwargs: Any) -> _Record:
        """Move or convert every tensor, with the arguments of ``Tensor.to``. Masks keep their dtype."""
        moved: _Record = self.map(
            lambda t: t.to(*args, **kwargs) if t.is_floating_point() else _to_device(t, args, kwargs)
        )
        return moved

    @staticmethod
    def cat(parts: Sequence[_Record]) -> _Record:
        """Join records along their first axis."""
        joined: dict[str, Any] = {
            name: torch.cat([part.tensors()[name] for part in parts]) for name in parts[0].tensors()
        }
        if hasattr(parts[0], "ids"):
            joined["ids"] = tuple(name for part in parts for name in part.ids)  # type: ignore[attr-defined]
        return replace(parts[0], **joined)


def as_mask(mask: Tensor) -> Tensor:
    """Convert a mask of 0/1 numbers to bool."""
    return mask if mask.dtype == torch.bool else mask > 0.5


def _to_device(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """``Tensor.to`` without a change of dtype."""
    args = tuple(arg for arg in args if not isinstance(arg, torch.dtype))
    return tensor.to(*args, **{k: v for k, v in kwargs.items() if k != "dtype"}) if args or kwargs else tensor


@dataclass(frozen=True)
class QueryBatch(TensorRecord):
    """Queries as word features."""

    tokens: Tensor  # (Q, L, Dq)
    mask: Tensor  # (Q, L)
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def mean_words(self) -> Tensor:
        """The mean of each query's word features, (Q, Dq)."""
        mask = self.mask.to(torch.float32)
        return (self.tokens.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)

    def meanings(self, usual: Tensor) -> Tensor:
        """Unit vectors that say what a query is about: its mean word without what is usual, (Q, Dq)."""
        return F.normalize(self.mean_words() - usual, dim=-1)


@dataclass(frozen=True)
class VideoBatch(TensorRecord):
    """Videos as features at two time scales. Some methods also need captions of each video."""

    frames: Tensor  # (V, M, Dv)
    frame_mask: Tensor  # (V, M)
    clips: Tensor  # (V, C, Dv)
    ids: tuple[str, ...] = ()
    captions: Tensor | None = None  # (V, T, L, Dq) word features of auxiliary captions
    caption_mask: Tensor | None = None  # (V, T, L); all False where a video has fewer captions
    clip_sizes: Tensor | None = None  # (V, C) how much of a video each clip stands for; None: equal stretches

    def __len__(self) -> int:
        return self.frames.shape[0]


@dataclass(frozen=True)
class TrainBatch:
    """Videos with all queries that describe them; ``labels[n]`` is the row of the video that query ``n`` describes.

    If negatives were chosen for each query, their videos come after the described ones.
    """

    videos: VideoBatch
    queries: QueryBatch
    labels: Tensor  # (Q,) ascending
    negatives: Tensor | None = None  # (Q, S) rows of videos

    def to(self, *args: Any, **kwargs: Any) -> TrainBatch:
        moved = self.labels.to(*args, **kwargs)
        negatives = None if self.negatives is None else self.negatives.to(*args, **kwargs)
        return TrainBatch(self.videos.to(*args, **kwargs), self.queries.to(*args, **kwargs), moved, negatives)


@dataclass(frozen=True)
class VideoTokens(TensorRecord):
    """Videos as a backbone encodes them. Padded frames are exactly zero."""

    frames: Tensor  # (V, M, D)
    frame_mask: Tensor  # (V, M)
    clips: Tensor  # (V, C, D)
    registers: Tensor | None = None  # (V, R, D)
    evidence_from: Literal["frames", "clips"] = "frames"

    @property
    def evidence(self) -> Tensor:
        """The tokens that local evidence is computed from: frames (V, M, D) or clips (V, C, D)."""
        return self.frames if self.evidence_from == "frames" else self.clips

    @property
    def evidence_mask(self) -> Tensor:
        """The mask of ``evidence``, (V, M) or (V, C)."""
        if self.evidence_from == "frames":
            return self.frame_mask
        return torch.ones(self.clips.shape[:2], dtype=torch.bool, device=self.clips.device)

    @staticmethod
    def of_frames(frames: Tensor, frame_mask: Tensor) -> VideoTokens:
        """Tokens of a method without clips, from (V, M, D) and (V, M). Sets padded frames to zero."""
        masked = frames.masked_fill(~frame_mask[..., None], 0.0)
        return VideoTokens(masked, frame_mask, frames.new_zeros(frames.shape[0], 0, frames.shape[2]))

    def padded(self: _Tokens, frames: int) -> _Tokens:
        """Pad to at least this many frames, so that batches have the same shape."""
        missing = max(0, frames - self.frames.shape[1])
        return replace(
            self, frames=F.pad(self.frames, (0, 0, 0, missing)), frame_mask=F.pad(self.frame_mask, (0, missing))
        )

    def __len__(self) -> int:
        return self.frames.shape[0]

    def __getitem__(self, rows: slice | Tensor) -> VideoTokens:
        return self.map(lambda tensor: tensor[rows])


@dataclass(frozen=True)
class Evidence(TensorRecord):
    """Everything that TRACE computes for each query–video pair. Padded frames hold NaN.

    ``compatibility`` has no query axis, so these records can be moved but not joined.
    """

    direct: Tensor  # (Q, V, M) d: query–frame cosine
    support: Tensor  # (Q, V, M) ρ: support from the activated registers
    routed: Tensor  # (Q, V, M) d + γρ
    attention: Tensor  # (Q, V, M) u: weights of the frames in the soft route
    affinity: Tensor  # (Q, V, R) a: query–register cosine
    activation: Tensor  # (Q, V, R) π: softmax of the affinity
    compatibility: Tensor  # (V, R, M) b: register–frame cosine
    peak: Tensor  # (Q, V) index of the frame with the routed maximum
    route: Tensor  # (Q, V) the routed maximum
    soft: Tensor  # (Q, V) cosine of the query and the attention-weighted frames
    score: Tensor  # (Q, V) route + η·soft; with the gate, times the pair's certainty

    @property
    def expected_support(self) -> Tensor:
        """ḡ = Σ_k π_k b_ki (Q, V, M): support on the cosine scale, for the unsupported gap."""
        return torch.einsum("qvr,vrm->qvm", self.activation, self.compatibility)

    @property
    def unsupported_gap(self) -> Tensor:
        """Direct evidence minus expected support where direct evidence peaks, (Q, V)."""
        peak = self.direct.nan_to_num(-torch.inf).argmax(-1, keepdim=True)
        return (self.direct - self.expected_support).gather(-1, peak).squeeze(-1)
