"""The few dataclasses that travel between rooms.

Shapes use one alphabet everywhere: Q queries, V videos, L words, M frames, C clips, R registers, D width.
A mask is True where something real is, False on padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

_Record = TypeVar("_Record", bound="TensorRecord")
_Tokens = TypeVar("_Tokens", bound="VideoTokens")


@dataclass(frozen=True)
class TensorRecord:
    """A record of tensors that share their first axis: moved, sliced and joined as one. Other fields ride along."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensor fields by name, absent ones left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def map(self: _Record, change: Callable[[Tensor], Tensor]) -> _Record:
        """The same record with every tensor changed."""
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors().items()}
        return replace(self, **changed)

    def to(self: _Record, *args: Any, **kwargs: Any) -> _Record:
        """Move or convert every tensor, with the arguments of ``Tensor.to``. Masks keep their type."""
        moved: _Record = self.map(
            lambda t: t.to(*args, **kwargs) if t.is_floating_point() else _moved_only(t, args, kwargs)
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
    """Masks arrive as bool or as 0/1 numbers; inside they are bool."""
    return mask if mask.dtype == torch.bool else mask > 0.5


def _moved_only(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    kept = tuple(arg for arg in args if not isinstance(arg, torch.dtype))
    return tensor.to(*kept, **{k: v for k, v in kwargs.items() if k != "dtype"}) if kept or kwargs else tensor


@dataclass(frozen=True)
class QueryBatch(TensorRecord):
    """Sentences as word features."""

    tokens: Tensor  # (Q, L, Dq)
    mask: Tensor  # (Q, L)
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.tokens.shape[0]


@dataclass(frozen=True)
class VideoBatch(TensorRecord):
    """Videos as raw features, at two time scales; for some methods with sentences that were written about them."""

    frames: Tensor  # (V, M, Dv)
    frame_mask: Tensor  # (V, M)
    clips: Tensor  # (V, C, Dv)
    ids: tuple[str, ...] = ()
    captions: Tensor | None = None  # (V, T, L, Dq) word features of auxiliary captions
    caption_mask: Tensor | None = None  # (V, T, L); a slot without a real word holds no caption

    def __len__(self) -> int:
        return self.frames.shape[0]


@dataclass(frozen=True)
class TrainBatch:
    """Videos with all their captions; ``labels[n]`` is the row of the video that query ``n`` describes.

    Where negatives were chosen for each query, their videos follow those that the queries describe.
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
    """What a backbone makes of videos. Padded frame slots are exactly zero."""

    frames: Tensor  # (V, M, D)
    frame_mask: Tensor  # (V, M)
    clips: Tensor  # (V, C, D)
    registers: Tensor | None = None  # (V, R, D)
    evidence_from: Literal["frames", "clips"] = "frames"

    @property
    def evidence(self) -> Tensor:
        """The tokens this backbone's local evidence lives in, (V, M, D) or (V, C, D)."""
        return self.frames if self.evidence_from == "frames" else self.clips

    @property
    def evidence_mask(self) -> Tensor:
        if self.evidence_from == "frames":
            return self.frame_mask
        return torch.ones(self.clips.shape[:2], dtype=torch.bool, device=self.clips.device)

    @staticmethod
    def of_frames(frames: Tensor, frame_mask: Tensor) -> VideoTokens:
        """Tokens of a method without clips: (V, M, D), (V, M); padded slots are made zero here."""
        kept = frames.masked_fill(~frame_mask[..., None], 0.0)
        return VideoTokens(kept, frame_mask, frames.new_zeros(frames.shape[0], 0, frames.shape[2]))

    def padded(self: _Tokens, frames: int) -> _Tokens:
        """The same videos with (at least) so many frame slots, new ones empty: batches then share a shape."""
        spare = max(0, frames - self.frames.shape[1])
        return replace(self, frames=F.pad(self.frames, (0, 0, 0, spare)), frame_mask=F.pad(self.frame_mask, (0, spare)))

    def __len__(self) -> int:
        return self.frames.shape[0]

    def __getitem__(self, rows: slice | Tensor) -> VideoTokens:
        return self.map(lambda tensor: tensor[rows])


@dataclass(frozen=True)
class Evidence(TensorRecord):
    """Everything TRACE computes for each query–video pair. Padded frames hold NaN: they are no evidence.

    (``compatibility`` has no query axis, so this record moves as one but is never joined.)
    """

    direct: Tensor  # (Q, V, M) d: what the query sees in a frame by itself
    support: Tensor  # (Q, V, M) ρ: what the activated registers lend that frame
    routed: Tensor  # (Q, V, M) d + γρ
    attention: Tensor  # (Q, V, M) u: the soft route's weight of a frame
    affinity: Tensor  # (Q, V, R) a: query–register cosine
    activation: Tensor  # (Q, V, R) π: softmax of the affinity
    compatibility: Tensor  # (V, R, M) b: register–frame cosine
    peak: Tensor  # (Q, V) index of the frame that wins the routed maximum
    route: Tensor  # (Q, V) the routed maximum
    soft: Tensor  # (Q, V) cosine of the query and the softly attended frames
    score: Tensor  # (Q, V) route + η·soft; times the pair's certainty where the gate is on

    @property
    def expected_support(self) -> Tensor:
        """ḡ = Σ_k π_k b_ki (Q, V, M): support on the cosine scale, for the unsupported gap."""
        return torch.einsum("qvr,vrm->qvm", self.activation, self.compatibility)

    @property
    def unsupported_gap(self) -> Tensor:
        """Direct evidence minus expected support where direct evidence peaks, (Q, V)."""
        peak = self.direct.nan_to_num(-torch.inf).argmax(-1, keepdim=True)
        return (self.direct - self.expected_support).gather(-1, peak).squeeze(-1)
