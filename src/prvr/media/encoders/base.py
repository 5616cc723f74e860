"""The interface of encoders: pictures and sentences to unit vectors of one space; windows of frames to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.media.errors import EncoderError
from prvr.media.frames import Fit, Image
from prvr.media.recipe import PROJECTED_WORDS, WORDS, Recipe
from prvr.media.resize import fit_picture

Array = NDArray[np.float32]
Pictures = Sequence[Image] | NDArray[np.uint8]  # one by one, or in one array (N, H, W, 3)


@dataclass(frozen=True)
class Understanding:
    """What an encoder with a limited vocabulary made of a sentence."""

    used: tuple[str, ...]
    ignored: tuple[str, ...]  # words that carry meaning, but that it does not know


class TextEncoder(ABC):
    """Sentences to unit vectors, and to word features for models that read words."""

    name: str
    width: int  # D, of the vectors
    word_width: int  # Dq, of the word features
    weights: str = "none"  # sha256 of the weight files
    text_preprocessing: str = ""  # how sentences become tokens

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> Array:
        """Vectors of the texts, (N, D), unit length. A row is zero where the encoder knows no word of the text."""

    @abstractmethod
    def encode_words(self, text: str) -> Array:
        """Features of the words of a text, (L, Dq), at least one row."""

    def encode_word_lists(self, texts: Sequence[str]) -> list[Array]:
        """``encode_words`` of many texts. Override it where encoding many at once is faster."""
        return [self.encode_words(text) for text in texts]

    def project_words(self, words: Array) -> Array:
        """Word features of a text in the space of the vectors, (L, Dq) → (L, D); its last row is the text's own vector.

        Raises:
            EncoderError: the model has no such map.
        """
        raise EncoderError(f"{self.name} cannot project single words; keep words, or one vector per sentence.")

    def understanding(self, text: str) -> Understanding | None:
        """Which words of a text are used, for an encoder with a limited vocabulary; None if it reads every word."""
        return None

    def variations(self, text: str) -> tuple[str, ...]:
        """The text with one word exchanged for another of its kind, for an encoder that knows kinds of words."""
        return ()

    def text_recipe(self, *, words: bool = False, projected: bool = False) -> Recipe:
        """The recipe of sentence vectors, of word features, or of those in the space of the vectors."""
        if projected:
            how = _joined(PROJECTED_WORDS, self.text_preprocessing)
            return Recipe(self.name, self.weights, self.width, preprocessing=how)
        if words:
            return Recipe(
                self.name, self.weights, self.word_width, preprocessing=_joined(WORDS, self.text_preprocessing)
            )
        return Recipe(self.name, self.weights, self.width, preprocessing=self.text_preprocessing)


class Encoder(TextEncoder):
    """A text encoder that also encodes pictures, into the same space."""

    fit: Fit  # the size of its pictures
    preprocessing: str = ""  # of pictures
    batch: int = 32  # pictures that are encoded together
    sees_motion: bool = True  # False: a vector depends on its picture alone, so that videos may share a batch

    @abstractmethod
    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        """Vectors of consecutive samples of one video, (N, D), unit length.

        Args:
            images: pictures of the size that ``fit`` states.
            before: the sample before the first of them, for encoders that see motion; None at the start of a video.
        """

    def start_frames(self, images: Pictures, before: Image | None = None) -> Callable[[], Array]:
        """Begin with ``encode_frames``; the result waits for the vectors. Override it if a device works alongside."""
        vectors = self.encode_frames([*images], before)
        return lambda: vectors

    def encode_images(self, images: Sequence[Image]) -> Array:
        """Vectors of unrelated pictures of any size, (N, D), unit length; used for search by picture."""
        if not images:
            return np.zeros((0, self.width), np.float32)
        return np.concatenate([self.encode_frames([fit_picture(image, self.fit)]) for image in images])

    def recipe(self, rate: float, decoder: str, repeats: float = 0.0) -> Recipe:
        """The recipe of this encoder's features of frames at ``rate`` per second, decoded by ``decoder``.

        ``repeats`` is the threshold of ``RepeatFilter``. The recipe also says how sentences are prepared: they are
        compared with the frames.
        """
        size = f"{self.fit.width}x{self.fit.height} {self.fit.mode}"
        preprocessing = _joined(self.preprocessing, self.text_preprocessing)
        return Recipe(
            self.name, self.weights, self.width, size, preprocessing, float(rate), decoder, repeats=float(repeats)
        )


class WindowEncoder(ABC):
    """Windows of several frames to vectors, one each. Sentences belong to another encoder, and to another space."""

    name: str
    weights: str  # sha256 of the weight files
    width: int  # D, of the vectors
    frames: int  # of a window
    fit: Fit  # the size of its pictures
    preprocessing: str = ""  # of pictures
    batch: int = 1  # windows that are encoded together

    @abstractmethod
    def encode_windows(self, windows: NDArray[np.uint8]) -> Array:
        """Vectors of windows, as the model returns them. (B, frames, H, W, 3) → (B, D)"""

    def recipe(self, rate: float, decoder: str, repeats: float = 0.0) -> Recipe:
        """The recipe of windows that are made of frames at ``rate`` per second; every frame is encoded."""
        size = f"{self.fit.width}x{self.fit.height} {self.fit.mode}"
        how = _joined(f"{self.frames} frames a row", self.preprocessing)
        return Recipe(self.name, self.weights, self.width, size, how, float(rate), decoder)

    def release(self) -> None:
        """Free a GPU's memory until the next windows come."""
        return


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def unit_rows(rows: Array) -> Array:
    """Scale rows to unit length; a zero row stays zero. (N, D) → (N, D)."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.maximum(length, 1e-12)).astype(np.float32)


def require_numbers(features: Array, weights: str | Path) -> Array:
    """The features; an ``EncoderError`` that names the weights where they are NaN or infinite."""
    if not np.isfinite(features).all():
        raise EncoderError(f"The weights in {weights} make features that are NaN or infinite. Download them again.")
    return features


def require_pictures(images: Pictures, fit: Fit) -> NDArray[np.uint8]:
    """Pictures as one array (N, H, W, 3); an ``EncoderError`` where one does not have the encoder's size."""
    if isinstance(images, np.ndarray) and images.shape[1:] == (fit.height, fit.width, 3):
        return images
    wrong = next((image for image in images if image.shape != (fit.height, fit.width, 3)), None)
    if wrong is not None:
        raise EncoderError(
            f"A picture has shape {wrong.shape}, but the encoder expects {(fit.height, fit.width, 3)}. "
            "Pass `fit=encoder.fit` to the reader, or use encode_images."
        )
    return np.stack([*images])
