"""How video samples and queries become vectors of one space.

There are two kinds: the encoder's own space (``frozen.py``), and the space of a trained model (``trained.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media import Image, TextEncoder, Understanding

if TYPE_CHECKING:
    from torch import Tensor

    from prvr.backbones import Backbone
    from prvr.library.ingest.witness import LibraryWitness, SentenceWords
    from prvr.tokens import VideoTokens
    from prvr.trace import Trace
    from prvr.training import RunCalibration


class Embedded(NamedTuple):
    """Tokens of a stretch of one video."""

    tokens: VideoTokens
    spans: Tensor  # (m, 2) first and last (excluded) sample of each local token
    frames: Tensor | None = None  # (M, Dv) features that a trained model read


class Embedding(ABC):
    """Samples (n, Dv) to tokens, sentences to queries (Q, D)."""

    encoder: TextEncoder  # encodes frames or lines, and sentences
    width: int  # D
    backbone: Backbone  # with TRACE, what videos are encoded with
    trace: Trace
    step: int  # samples from one section of a long video to the next
    overlap: int  # samples that neighbouring sections share
    calibration: RunCalibration | None = None  # of a trained model: how its scores become probabilities
    witness: LibraryWitness | None = None  # of a trained model: reads words and frames one by one
    own_keys = False  # True if tokens are unit vectors and TRACE does not project them: keys need not be stored

    @abstractmethod
    def embed(self, samples: Tensor) -> Embedded:
        """Turn consecutive samples (n, Dv) into tokens; n is at most ``step + overlap``."""

    @abstractmethod
    def sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts as queries (Q, D). A row is zero if nothing of the text is understood."""

    @abstractmethod
    def picture(self, image: Image) -> NDArray[np.float32] | None:
        """Encode a picture as a query (D,); None if this embedding cannot."""

    def words_of(self, texts: Sequence[str]) -> dict[str, SentenceWords]:
        """The words of texts as the model's witness reads them; empty without one."""
        return {}

    def understanding(self, text: str) -> Understanding | None:
        """Which words of a sentence are understood; None if all are."""
        return self.encoder.understanding(text)

    @property
    def query_projection(self) -> NDArray[np.float32] | None:
        """TRACE's query projection (D, D), which a gallery needs; None if it changes nothing."""
        return None if self.own_keys else self.trace.projections["query"].detach().numpy()
