"""What a library's vectors mean: how samples of a video, and what is asked for, become vectors of one space.

Two kinds: an encoder's own space (``frozen``), and the space of a trained model (``trained``). A track cuts videos into
sections and stores them; it does not care which kind it works with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from prvr.backbones import Backbone
from prvr.media.encoders.base import TextEncoder
from prvr.media.frames import Image
from prvr.tokens import VideoTokens
from prvr.trace import Trace


class Embedded(NamedTuple):
    """A stretch of a video as tokens."""

    tokens: VideoTokens  # of one video
    spans: Tensor  # (m, 2) first sample and end (excluded) of each token that evidence lives in


class Embedding(ABC):
    """Samples (n, Dv) to tokens, sentences to queries (Q, D)."""

    encoder: TextEncoder  # what gives samples and reads sentences
    backbone: Backbone
    trace: Trace
    step: int  # samples from one section of a long video to the next
    overlap: int  # samples that neighbouring sections share
    own_keys = False  # True: stored tokens are unit vectors and TRACE projects nothing, so they are their own keys

    @abstractmethod
    def embed(self, samples: Tensor) -> Embedded:
        """Consecutive samples of a video, at most ``step + overlap`` of them."""

    @abstractmethod
    def sentences(self, texts: Sequence[str]) -> Tensor:
        """(Q, D); a row is zero where nothing of the text is understood."""

    @abstractmethod
    def picture(self, image: Image) -> Tensor | None:
        """A picture as a query, (D,); None where pictures cannot be asked for."""

    @property
    def query_projection(self) -> Tensor | None:
        """TRACE's query projection (D, D), which a gallery must know; None where it changes nothing."""
        return None if self.own_keys else self.trace.projections["query"].detach()
