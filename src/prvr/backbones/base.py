"""The base class of every backbone: encoders for queries and videos, a score, and a training objective."""

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
from prvr.tokens import FeatureRule, TrainBatch, VideoBatch, VideoTokens


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

    @property
    def feature_rule(self) -> FeatureRule:
        """How a video's frames are resampled for the model (``prvr.data.rules``)."""
        return "standard"

    def pool_at(self, epoch: int) -> int | None:
        """The pool of hard negatives in an epoch; None while negatives are drawn from all."""
        return self.hard_pool if epoch >= self.hard_negative_epoch else None

    def regime_at(self, epoch: int) -> tuple[int, ...]:
        """What an epoch decides about the objective. A step captured in one regime is not replayed in another."""
        return (self.pool_at(epoch) or 0,)


@dataclass(frozen=True)
class Encoded:
    """An encoded training batch: what the objective needs.

    Everything in ``per_query`` has a row per query, everything in ``per_video`` a row per video, so that batches
    encoded by several processes can be joined before the objective sees them.
    """

    queries: Tensor  # (N, D)
    labels: Tensor  # (N,)
    videos: VideoTokens
    per_query: Mapping[str, Tensor] = field(default_factory=dict)
    per_video: Mapping[str, Tensor] = field(default_factory=dict)
    residual: Tensor | None = None  # (N, B) evidence that is added to the scores of the ranking losses


class FirstStage(NamedTuple):
    """The ranking that a re-ranking method re-orders, and how much of it."""

    run: str  # folder of a trained run
    candidates: int  # best videos of each query
    negatives: int = 0  # how many training negatives of each query come from its list; 0: none
    reach: float = 0.0  # where the list ends below the right video, as a share of all videos


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
    needs: ClassVar[tuple[str, ...]] = ()  # inputs besides frame and word features
    trainable: ClassVar[bool] = True  # False: the method has no parameters
    unit_tokens: bool = True  # False: tokens are not normalised, so their lengths count in the score
    separable: bool = True  # False: each query–video pair is scored by itself; a gallery cannot be prepared
    has_registers: bool = False  # True: video tokens include registers that TRACE can be trained on
    keeps_frames: bool = True  # False: what it makes of a video's frames is one vector
    has_words: bool = False  # True: ``word_states`` gives a query's words, which a witness reads
    takes_residual: bool = False  # True: all its losses of query–video pairs add ``Encoded.residual``
    untrained: tuple[str, ...] = ()  # name prefixes of parameters that get no gradient
    official_unused: tuple[str, ...] = ()  # key prefixes in the authors' checkpoints that are ignored
    compiled: tuple[str, ...] = ()  # submodules and methods with most of a step's work: long GPU trainings compile them
    starts_from_run: bool = False  # True: this variant is trained only from the weights of another run
    notice: str = ""  # shown when this variant is trained or evaluated, such as how to name its results
    official_constants: ClassVar[Mapping[str, float]] = {}  # endings of keys that must hold a value; not loaded

    def __init__(self, config: BackboneConfig):
        super().__init__()
        self.config = config

    @property
    @abstractmethod
    def width(self) -> int:
        """Width D of the vectors that queries and tokens share."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are; the CPU for a method without any."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @abstractmethod
    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(Q, L, Dq), (Q, L) → (Q, D). A method that is not separable may keep the words (``blocks.packed_words``)."""

    def word_states(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """A query's words before they are pooled, (Q, L, Dq), (Q, L) → (Q, L, D). Not every method has them."""
        raise TypeError(f"{self.method} does not encode words one by one: it has no word states")

    @abstractmethod
    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        """(V, M, Dv), (V, M), (V, C, Dv) → tokens of width D."""

    def encode_video_batch(self, batch: VideoBatch) -> VideoTokens:
        """``encode_videos`` of a batch, with the further inputs that the method reads."""
        return self.encode_videos(batch.frames, batch.frame_mask, batch.clips)

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        """The token sets whose weighted best cosines make up this method's score. Every separable method has them."""
        raise TypeError(f"{self.method} scores each query–video pair separately: it has no token sets, only base_score")

    def base_score(self, queries: Tensor, videos: VideoTokens) -> Tensor:
        """The method's own score, (Q, D), V videos → (Q, V)."""
        sets = self.token_sets(videos)
        if self.unit_tokens:
            return torch.stack([weight * max_cosine(queries, tokens) for weight, tokens in sets]).sum(0)
        unit = F.normalize(queries, dim=-1)
        return torch.stack([weight * max_dot(unit, tokens) for weight, tokens in sets]).sum(0)

    def word_curve(self, queries: Tensor, videos: VideoTokens) -> Tensor | None:
        """How each frame answers queries that keep their words, (Q, V, M); None where that cannot be said."""
        return None

    @property
    def first_stage(self) -> FirstStage | None:
        """The first stage of a method that re-orders another's ranking; None: it ranks everything by itself."""
        return None

    def pair_elements(self, words: int, frames: int) -> int:
        """About how many numbers ``base_score`` holds at once for each query–video pair.

        It decides how many pairs are scored together by a method that is not separable.
        """
        return frames * (self.width + words)

    @abstractmethod
    def encode_batch(self, batch: TrainBatch) -> Encoded:
        """Encode a training batch, including paths that the method has for training only."""

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
        """Read the authors' hyper-parameter names into our configuration."""
        raise NotImplementedError(f"{cls.method} has no official configuration to read")

    @classmethod
    def config_for_checkpoint(cls, config: Mapping[str, Any], keys: Collection[str]) -> BackboneConfig:
        """The same for a checkpoint with these keys. Parts of the method that it does not hold are left out."""
        return cls.config_from_official(config)

    def official_keys(self) -> dict[str, OfficialKey]:
        """Our parameter names → the authors' keys (see ``blocks.official``). Empty: no official checkpoint."""
        return {}


def total_loss(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Weighted sum of loss terms. A term without a weight raises ``KeyError``."""
    missing = sorted(terms.keys() - weights.keys())
    if missing:
        raise KeyError(f"no weight for the loss terms {missing}; weights are given for {sorted(weights)}")
    return torch.stack([weights[name] * value for name, value in terms.items()]).sum()
