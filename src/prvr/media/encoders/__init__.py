"""Encoders by name: ``plain`` (no weights), a folder with a model, or a model that ``prvr prepare`` has downloaded.

An encoder of your own derives from ``Encoder`` and can be given wherever one is expected:

>>> import numpy as np
>>> from prvr.media import Encoder, Fit, unit_rows
>>> class MeanColour(Encoder):
...     name, width, word_width, fit = "mean-colour-1", 3, 3, Fit(16, 16)
...
...     def encode_frames(self, images, before=None):  # (16, 16, 3) each, in order of time → (N, 3)
...         return unit_rows(np.stack(images).mean((1, 2)))
...
...     def encode_texts(self, texts):
...         return unit_rows(np.array([[name in text for name in ("red", "green", "blue")] for text in texts]))
...
...     def encode_words(self, text):
...         return self.encode_texts(text.split() or [""])
>>> encoder, picture = MeanColour(), np.full((48, 64, 3), (200, 10, 10), np.uint8)
>>> matches = encoder.encode_texts(["something red", "something blue"]) @ encoder.encode_images([picture])[0]
>>> [f"{match:.2f}" for match in matches]
['1.00', '0.05']
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.errors import did_you_mean
from prvr.media.encoders.base import Array, Encoder, TextEncoder, Understanding, WindowEncoder, unit_rows
from prvr.media.encoders.plain import PlainEncoder
from prvr.media.encoders.presets import EncoderPreset, find_preset, prepared_encoders, presets
from prvr.media.errors import EncoderError

if TYPE_CHECKING:
    import torch

    from prvr.media.encoders.engine import PictureEngine

SHORT_NAMES = {preset.name: preset.hub for preset in presets()}


def open_encoder(name: str = "plain", device: str | None = None, engine: str | None = None) -> Encoder:
    """An encoder of pictures and sentences. Nothing is downloaded.

    Args:
        name: ``plain``, a short name, a hub name, or a folder that holds a model.
        device: where the model runs; by default a GPU if there is one.
        engine: type of numbers for pictures: ``fp32``, ``bf16``, ``int8``, ``torch`` for float32 without OpenVINO, or
            ``auto`` for the fastest. Without it, the environment variable ``PRVR_ENGINE`` decides, else ``auto``.

    Raises:
        EncoderError: the model is not on this machine, or cannot be used.
        MissingExtra: ``transformers``, or OpenVINO for int8, is not installed.

    >>> open_encoder("plain").encode_texts(["a red square moves left"]).shape
    (1, 332)
    """
    if name in PlainEncoder.names:
        return PlainEncoder()
    from prvr.media.encoders.image_text import ImageTextEncoder

    return ImageTextEncoder(_hub_name(name), device, engine)


def picture_engine(model: Any, size: int, device: torch.device, **options: Any) -> PictureEngine:
    """What runs the picture part of an image–text model, for square pictures: what ``prvr bench`` measures."""
    from prvr.media.encoders.engine import PictureEngine
    from prvr.media.encoders.preparation import PicturePreparation

    return PictureEngine(model, PicturePreparation.plain(size), device, **options)


def open_text_encoder(name: str = "minilm", device: str | None = None) -> TextEncoder:
    """An encoder of sentences only, for subtitles. Arguments and errors are those of ``open_encoder``."""
    from prvr.media.encoders.sentences import NoSentenceModel, SentenceEncoder

    preset = find_preset(name)
    of_pictures = name in PlainEncoder.names or (preset is not None and preset.kind != "sentences")
    if of_pictures and not Path(name).is_dir():  # said before it has to be downloaded
        raise NoSentenceModel(name)
    return SentenceEncoder(_hub_name(name), device)


def open_window_encoder(place: str | Path, device: str | None = None) -> WindowEncoder:
    """InternVideo2's video tower, from a file with its weights or a folder with the files of one model.

    Raises:
        EncoderError: there is no such file, it holds something else, or reading it would execute code.
    """
    from prvr.media.encoders.internvideo2 import InternVideo2Encoder

    return InternVideo2Encoder(place, device)


def open_word_encoder(name: str, device: str | None = None) -> TextEncoder:
    """A LLaMA that encodes the words of sentences as InternVideo2's authors do, from a folder.

    Raises:
        EncoderError: the folder does not hold a LLaMA, with weights as .safetensors files or one .pth file.
        MissingExtra: ``transformers`` is not installed.
    """
    from prvr.media.encoders.llama import LlamaEncoder

    return LlamaEncoder(name, device)


def _hub_name(name: str) -> str:
    """A short name's hub name; other names as they are. A misspelt short name raises an ``EncoderError``."""
    if name not in SHORT_NAMES and name.isascii() and "/" not in name and not Path(name).exists():
        hint = did_you_mean(name, ["plain", *SHORT_NAMES])
        raise EncoderError(
            f"{name!r} is neither a folder nor a hub name such as google/siglip2-base-patch16-224, nor a short name."
            f"{hint} `prvr prepare --list` shows them."
        )
    return SHORT_NAMES.get(name, name)


__all__ = [
    "SHORT_NAMES",
    "Array",
    "Encoder",
    "EncoderPreset",
    "PlainEncoder",
    "TextEncoder",
    "Understanding",
    "WindowEncoder",
    "find_preset",
    "open_encoder",
    "open_text_encoder",
    "open_window_encoder",
    "open_word_encoder",
    "picture_engine",
    "prepared_encoders",
    "presets",
    "unit_rows",
]
