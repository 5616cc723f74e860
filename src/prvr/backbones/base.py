"""What every backbone is: encoders for queries and videos, a score, and its own training objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey
from prvr.backbones.scores import TokenSet, max_cosine, max_dot
from prvr.tokens import TrainBatch, VideoBatch, VideoTokens


@dataclass(frozen=True)
class BackboneConfig:
    """Numbers that shape a backbone. Each method extends it."""

    visual_width: int = 1024
    """width of the video features"""
    query_width: int = 1024
    """width of the word features"""
    frames: int = 128
    """frame slots M"""
    clips: int = 32
    """clips C"""
    words: int = 30
    """longest query"""
    hard_negative_epoch: int = 20
    """first epoch (from 0) whose triplets meet hard negatives"""
    hard_pool: int = 20
    """how many hardest videos a query's negative is drawn from"""

    @property
    def auxiliary_captions(self) -> int:
        """How many auxiliary captions of each video the model reads; 0: none."""
        return 0

    def pool_at(self, epoch: int) -> int | None:
        """The pool of hard negatives in an epoch; None while negatives are drawn from all."""
        return self.hard_pool if epoch >= self.hard_negative_epoch else None

    def regime_at(self, epoch: int) -> tuple[int, ...]:
        """What an epoch decides about the objective. A step captured in one regime is not replayed in another."""
        return (self.pool_at(epoch) or 0,)


@dataclass(frozen=True)
class Encoded:
    """A training batch once encoded: what the objective needs, and nothing that only one process has.

    Everything in ``per_query`` has a row per query, everything in ``per_video`` a row per video, so that batches
    encoded by several processes can be joined before the objective sees them.
    """

    queries: Tensor  # (N, D)
    labels: Tensor  # (N,)
    videos: VideoTokens
    per_query: Mapping[str, Tensor] = field(default_factory=dict)
    per_video: Mapping[str, Tensor] = field(default_factory=dict)


class FirstStage(NamedTuple):
    """Whose ranking a re-ranking method re-orders, and how much of it."""

    run: str  # folder of a trained run
    candidates: int  # best videos of each query
    negatives: int = 0  # how many of its list each training query is told from; 0: none are drawn from it
    reach: float = 0.0  # how far below the right video that list goes, as a share of all videos


class Backbone(nn.Module, ABC):
    """A text–video model that exposes its local tokens.

    >>> from prvr.backbones import build
    >>> model = build("dreamprvr", visual_width=20, query_width=24, width=32)
    >>> model.separable, model.width
    (True, 32)
    """

    method: ClassVar[str]
    config_type: ClassVar[type[BackboneConfig]]
    title: ClassVar[str] = ""  # the name in its paper
    year: ClassVar[int | None] = None  # of its paper
    needs: ClassVar[tuple[str, ...]] = ()  # what it wants besides frame and word features
    trainable: ClassVar[bool] = True  # False: there is nothing to learn, publish or load
    unit_tokens: bool = True  # False: token sets keep their lengths, which then count in the score
    separable: bool = True  # False: the score needs each query–video pair, no gallery can be prepared
    has_registers: bool = False  # True: video tokens carry registers, which TRACE can be trained on as they are
    untrained: tuple[str, ...] = ()  # name prefixes of parameters that no term of the objective reaches
    official_unused: tuple[str, ...] = ()  # prefixes of keys in the authors' checkpoints that nothing here reads
    compiled: tuple[str, ...] = ()  # submodules that a long training on a GPU compiles: they hold most of a step's work
    notice: str = ""  # what whoever trains or evaluates this variant must know to name its results rightly
    official_constants: ClassVar[Mapping[str, float]] = {}  # endings of authors' keys that must hold a value; dropped

    def __init__(self, config: BackboneConfig):
        super().__init__()
        self.config = config

    @property
    @abstractmethod
    def width(self) -> int:
        """Width D of the vectors that queries and tokens share."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are; a method without any works wherever its input is, and starts on the CPU."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @abstractmethod
    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(Q, L, Dq), (Q, L) → (Q, D). A method that is not separable may keep the words (``blocks.packed_words``)."""

    @abstractmethod
    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """(V, M, Dv), (V, M), (V, C, Dv) → tokens of width D."""

    def encode_video_batch(self, batch: VideoBatch) -> VideoTokens:
        """``encode_videos`` of a batch, with whatever else of it the method reads."""
        return self.encode_videos(batch.frames, batch.frame_mask, batch.clips)

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        """The token sets whose weighted best cosines make up this method's score. Every separable method has them."""
        raise TypeError(f"{self.method} scores each query–video pair anew: it has no token sets, only base_score")

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """The method's own score, (Q, D), V videos → (Q, V)."""
        sets = self.token_sets(videos)
        if self.unit_tokens:
            return torch.stack([weight * max_cosine(queries, tokens) for weight, tokens in sets]).sum(0)
        unit = F.normalize(queries, dim=-1)
        return torch.stack([weight * max_dot(unit, tokens) for weight, tokens in sets]).sum(0)

    @property
    def first_stage(self) -> FirstStage | None:
        """For a method that re-orders another's ranking: which. None: it ranks everything by itself."""
        return None

    def pair_elements(self, words: int, frames: int) -> int:
        """About how many numbers ``base_score`` holds at once for each query–video pair; decides how many pairs are
        scored together where pairs are scored anew."""
        return frames * (self.width + words)

    @abstractmethod
    def encode_batch(self, batch: TrainBatch) -> Encoded:
        """Encode a training batch, with whatever training-only paths the method has."""

    @abstractmethod
    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """The method's loss terms by name, before weighting."""

    @property
    @abstractmethod
    def loss_weights(self) -> dict[str, float]:
        """The weight of each term of the objective."""

    @classmethod
    def reads_official(cls) -> bool:
        """Whether the authors' checkpoints can be loaded into this method."""
        return "official_keys" in {name for kind in cls.__mro__ if kind is not Backbone for name in vars(kind)}

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> BackboneConfig:
        """Our configuration from the authors' hyper-parameter names."""
        raise NotImplementedError(f"{cls.method} has no official configuration to read")

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> BackboneConfig:
        """The same for a checkpoint with these keys: parts of the method that it does not hold are left out."""
        return cls.config_from_official(config)

    def official_keys(self) -> dict[str, OfficialKey]:
        """Our parameter names → the authors' keys (see ``blocks.official``). Empty: no official checkpoint."""
        return {}


def total_loss(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Weighted sum of loss terms; a term without a weight is a mistake, not a zero."""
    missing = sorted(terms.keys() - weights.keys())
    if missing:
        raise KeyError(f"no weight for the loss terms {missing}; weights are given for {sorted(weights)}")
    return torch.stack([weights[name] * value for name, value in terms.items()]).sum()
