"""Encoders by name: ``plain`` (no weights), a folder, or a hub name that ``prvr prepare`` has fetched."""

from __future__ import annotations

from prvr.media.encoders.base import Array, Encoder, TextEncoder, unit_rows
from prvr.media.encoders.plain import PlainEncoder

# Short names for models that are known to work and are published as safetensors.
SHORT_NAMES = {
    "siglip2": "google/siglip2-base-patch16-224",
    "clip": "openai/clip-vit-large-patch14",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
}


def open_encoder(name: str = "plain", device: str | None = None) -> Encoder:
    """An encoder of pictures and sentences. Nothing is downloaded.

    >>> open_encoder("plain").encode_texts(["a red square moves left"]).shape
    (1, 296)
    """
    if name in ("plain", PlainEncoder.name):
        return PlainEncoder()
    from prvr.media.encoders.image_text import ImageTextEncoder

    return ImageTextEncoder(SHORT_NAMES.get(name, name), device)


def open_text_encoder(name: str = "minilm", device: str | None = None) -> TextEncoder:
    """An encoder of sentences alone, for subtitles. Nothing is downloaded."""
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
