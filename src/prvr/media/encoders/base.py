"""What an encoder is: pictures and sentences to unit vectors of one space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prvr.media.errors import EncoderError
from prvr.media.frames import Fit, Image
from prvr.media.recipe import WORDS, Recipe
from prvr.media.resize import fit_picture

Array = NDArray[np.float32]


class TextEncoder(ABC):
    """Sentences to unit vectors, and to word features for models that read words."""

    name: str
    width: int  # D, of the vectors
    word_width: int  # Dq, of the word features
    weights: str = "none"  # sha256 of the weight files

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> Array:
        """(N, D), unit length; a row is zero where the encoder understands nothing of the text."""

    @abstractmethod
    def encode_words(self, text: str) -> Array:
        """(L, Dq) features of the words, at least one row."""

    def encode_word_lists(self, texts: Sequence[str]) -> list[Array]:
        """The words of many texts, (L, Dq) each; encoders that are faster on many at once say so here."""
        return [self.encode_words(text) for text in texts]

    def text_recipe(self, *, words: bool = False) -> Recipe:
        """The recipe of sentences' vectors, or of their word features."""
        if words:
            return Recipe(self.name, self.weights, self.word_width, preprocessing=WORDS)
        return Recipe(self.name, self.weights, self.width)


class Encoder(TextEncoder):
    """A text encoder that sees pictures too."""

    fit: Fit  # how it wants its pictures
    preprocessing: str = ""
    batch: int = 32  # pictures that are best encoded together

    @abstractmethod
    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        """Consecutive samples of one video, each as ``fit`` asks → (N, D), unit length.

        ``before`` is the sample before the first of them, for encoders that look at motion; None at the beginning.
        """

    def encode_images(self, images: Sequence[Image]) -> Array:
        """Unrelated pictures of any size → (N, D), unit length: for searching by picture."""
        if not images:
            return np.zeros((0, self.width), np.float32)
        return np.concatenate([self.encode_frames([fit_picture(image, self.fit)]) for image in images])

    def recipe(self, rate: float, decoder: str) -> Recipe:
        """The recipe of features that this encoder makes of frames at a rate."""
        size = f"{self.fit.width}x{self.fit.height} {self.fit.mode}"
        return Recipe(self.name, self.weights, self.width, size, self.preprocessing, float(rate), decoder)


def unit_rows(rows: Array) -> Array:
    """Rows at unit length; a zero row stays zero."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.maximum(length, 1e-12)).astype(np.float32)


def require_pictures(images: Sequence[Image], fit: Fit) -> Array | NDArray[np.uint8]:
    """Pictures as one array (N, H, W, 3), if they have the size an encoder asked for."""
    wrong = next((image for image in images if image.shape != (fit.height, fit.width, 3)), None)
    if wrong is not None:
        raise EncoderError(
            f"a picture of shape {wrong.shape} was given, {(fit.height, fit.width, 3)} is expected: "
            "pass `fit=encoder.fit` to the reader, or use encode_images"
        )
    return np.stack(images)
