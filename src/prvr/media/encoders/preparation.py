"""How a model wants its pictures and sentences: read from its files, and compared with its own processor.

Pictures are scaled by torch as 8-bit numbers. The result is Pillow's up to rounding: at most one level of 255 apart.
Scaling in floating point, on a GPU for example, would differ by several levels at sharp edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prvr.media.encoders.weights import FROM_HERE, first_line
from prvr.media.errors import EncoderError
from prvr.media.frames import Fit, Image, ScalingFilter
from prvr.media.packages import require_transformers
from prvr.media.resize import fit_picture

_FILTERS: dict[int, ScalingFilter] = {2: "bilinear", 3: "bicubic"}  # by Pillow's numbers, which the files state
# Of 255, on average, between our pixels and those of the model's own processor, for the test picture: rounding gives
# 0.01, another filter 6, a cut that is off by one pixel 35.
_MOST_LEVELS_APART = 0.5


@dataclass(frozen=True)
class PicturePreparation:
    """How pictures become the numbers that a model reads."""

    fit: Fit
    factor: float  # 1/255 for models that expect numbers from 0 to 1
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def pixels(self, pictures: torch.Tensor) -> torch.Tensor:
        """Pictures of the right size as the model's input, (N, H, W, 3) uint8 → (N, 3, H, W) float32."""
        mean, deviation = (pictures.new_tensor(v, dtype=torch.float32)[:, None, None] for v in self.statistics)
        return (pictures.permute(0, 3, 1, 2).float() * self.factor - mean) / deviation

    @staticmethod
    def plain(size: int) -> PicturePreparation:
        """Square pictures of one size, as numbers from -1 to 1."""
        return PicturePreparation(Fit(size, size), 1 / 255, (0.5,) * 3, (0.5,) * 3)

    @property
    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.mean, self.deviation

    def __str__(self) -> str:
        scaled = f"short side {self.fit.short_side}" if self.fit.short_side else "both sides"
        numbers = (" ".join(f"{value:.8g}" for value in values) for values in self.statistics)
        return "{} {} × {:.8g} mean {} std {}".format(self.fit.filter, scaled, self.factor, *numbers)


@dataclass(frozen=True)
class TextPreparation:
    """How sentences become tokens. They are encoded as they are typed: the model cards' templates, such as "This is a
    photo of {label}.", are for bare labels, and these models were trained on whole sentences."""

    longest: int  # tokens; longer sentences are cut, and keep their end mark
    siglip: bool  # lower case, padded to the full length, and the padding is read as well: its training

    @property
    def padding(self) -> bool | str:
        """For the tokenizer: to the full length, or to that of the longest sentence."""
        return "max_length" if self.siglip else True

    def written(self, texts: Sequence[str]) -> list[str]:
        """The sentences as the tokenizer gets them."""
        return [text.lower() for text in texts] if self.siglip else list(texts)

    def __str__(self) -> str:
        if self.siglip:
            return f"sentences as typed, lower case, padded to {self.longest} tokens, no mask"
        return f"sentences as typed, at most {self.longest} tokens"


def text_preparation(config: Any) -> TextPreparation:
    """How a model wants its sentences, from its configuration."""
    text = getattr(config, "text_config", config)
    return TextPreparation(int(text.max_position_embeddings), "siglip" in config.model_type)


def picture_preparation(folder: Path) -> PicturePreparation:
    """How a model wants its pictures, from its files.

    Raises:
        EncoderError: the files do not say it, or they ask for something that is not done here.
    """
    try:
        processor = require_transformers().AutoImageProcessor.from_pretrained(folder, backend="pil", **FROM_HERE)
        settings = processor.to_dict()
        found = PicturePreparation(_fit(settings), *_numbers(settings))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as problem:
        raise EncoderError(
            f"The files in {folder} do not say how to prepare pictures for the model in a way that can be used "
            f"({first_line(problem)}). Is preprocessor_config.json there and complete? Models for pictures of "
            "any size (NaFlex) are not supported."
        ) from problem
    _require_same_pixels(found, processor, folder)
    return found


def _fit(settings: Mapping[str, Any]) -> Fit:
    if not settings.get("do_resize", True):
        raise ValueError("do_resize is off, so that pictures may have any size")
    name = _FILTERS.get(int(settings["resample"]))
    if name is None:
        raise ValueError(f"resample is {settings['resample']!r}; 2 (bilinear) and 3 (bicubic) are supported")
    size, crop = dict(settings["size"]), dict(settings.get("crop_size") or {})
    if settings.get("do_center_crop") and "shortest_edge" in size:
        short = int(size["shortest_edge"])
        if max(crop["height"], crop["width"]) > short:
            raise ValueError(f"crop_size {crop} is larger than the scaled picture's short side, {short}")
        return Fit(int(crop["width"]), int(crop["height"]), "cover", name, short)
    if not {"height", "width"} <= size.keys():
        raise ValueError(f"size is {size}, which leaves pictures of several sizes")
    return Fit(int(size["width"]), int(size["height"]), "stretch", name)


def _numbers(settings: Mapping[str, Any]) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    factor = float(settings["rescale_factor"]) if settings.get("do_rescale", True) else 1.0
    if not settings.get("do_normalize", True):
        return factor, (0.0,) * 3, (1.0,) * 3
    return factor, tuple(map(float, settings["image_mean"])), tuple(map(float, settings["image_std"]))


def _require_same_pixels(ours: PicturePreparation, processor: Any, folder: Path) -> None:
    """Compare our pixels with those of the model's own processor, so that nothing its files ask for is overlooked."""
    picture = _test_picture(3 * ours.fit.height // 2, 2 * ours.fit.width)
    expected = torch.as_tensor(np.asarray(processor(images=picture, return_tensors="np")["pixel_values"]))
    found = ours.pixels(torch.from_numpy(fit_picture(picture, ours.fit))[None])
    if expected.shape == found.shape:
        one_level = abs(ours.factor) / torch.tensor(ours.deviation)[:, None, None]
        apart = float(((found - expected).abs() / one_level).mean())
        if apart <= _MOST_LEVELS_APART:
            return
        problem = f"the pixels differ by {apart:.2f} of 255 levels on average"
    else:
        problem = f"its pictures have shape {tuple(expected.shape[1:])}, ours {tuple(found.shape[1:])}"
    raise EncoderError(
        f"The model in {folder} prepares pictures in a way that is not supported ({type(processor).__name__}): "
        f"{problem}."
    )


def _test_picture(height: int, width: int) -> Image:
    """Stripes, a gradient and a disc, (height, width, 3)."""
    y, x = np.mgrid[:height, :width]
    disc = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
    return np.stack([(x // 3 + y // 5) % 2 * 255, x * 255 // width, disc * 255], -1).astype(np.uint8)
