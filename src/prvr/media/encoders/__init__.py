"""Encoders by name: ``plain`` (no weights), a folder with a model, or a model that ``prvr prepare`` has downloaded.

To add an encoder, derive from ``Encoder``: set ``name``, ``width``, ``word_width`` and ``fit``, and write
``encode_frames``, ``encode_texts`` and ``encode_words``. It can then be given wherever an encoder is expected.
"""

from __future__ import annotations

from prvr.media.encoders.base import Array, Encoder, TextEncoder, unit_rows
from prvr.media.encoders.plain import PlainEncoder

# Models that are known to work and are published as safetensors.
SHORT_NAMES = {
    "siglip2": "google/siglip2-base-patch16-224",
    "clip": "openai/clip-vit-large-patch14",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
}


def open_encoder(name: str = "plain", device: str | None = None) -> Encoder:
    """An encoder of pictures and sentences. Nothing is downloaded.

    Args:
        name: ``plain``, a short name, a hub name, or a folder that holds a model.
        device: where the model runs; by default a GPU if there is one.

    Raises:
        EncoderError: the model is not on this machine, or cannot be used.
        MissingExtra: ``transformers`` is not installed.

    >>> open_encoder("plain").encode_texts(["a red square moves left"]).shape
    (1, 296)
    """
    if name in ("plain", PlainEncoder.name):
        return PlainEncoder()
    from prvr.media.encoders.image_text import ImageTextEncoder

    return ImageTextEncoder(SHORT_NAMES.get(name, name), device)


def open_text_encoder(name: str = "minilm", device: str | None = None) -> TextEncoder:
    """An encoder of sentences only, for subtitles. Arguments and errors are those of ``open_encoder``."""
    from prvr.media.encoders.sentences import SentenceEncoder

    return SentenceEncoder(SHORT_NAMES.get(name, name), device)


__all__ = [
    "SHORT_NAMES",
    "Array",
    "Encoder",
    "PlainEncoder",
    "TextEncoder",
    "open_encoder",
    "open_text_encoder",
    "unit_rows",
]
