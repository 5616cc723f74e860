"""Encoders with a short name: what each is for, its size, licence and speed, and which are on this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prvr.media.encoders.weights import cached_models, find_model

# Model types of `transformers` that encode pictures and sentences separately, into one space.
IMAGE_TEXT_TYPES = {"altclip", "chinese_clip", "clip", "metaclip_2", "siglip"}
_FAST, _MEDIUM = 20, 100  # GFLOPs per frame, at most


@dataclass(frozen=True)
class EncoderPreset:
    """A model that is known to work.

    ``gflops`` and the weights' part of ``megabytes`` follow from the published architecture; a test computes them.
    """

    name: str
    hub: str
    kind: Literal["pictures and sentences", "sentences"]
    megabytes: int  # to download, about; `prvr prepare NAME` asks the hub for the exact size first
    licence: str
    use: str
    side: int = 0  # of its pictures, in pixels
    gflops: float = 0.0  # per frame, two per multiply-add
    revision: str | None = None  # a commit, where the hub's main branch has no .safetensors file

    @property
    def speed(self) -> str:
        """``fast`` up to 20 GFLOPs per frame, ``medium`` up to 100, else ``slow``; empty for sentences only."""
        if not self.gflops:
            return ""
        return "fast" if self.gflops <= _FAST else "medium" if self.gflops <= _MEDIUM else "slow"


_BOTH: Literal["pictures and sentences"] = "pictures and sentences"
_PRESETS = (
    EncoderPreset(
        "siglip2", "google/siglip2-base-patch16-224", _BOTH, 1540, "Apache-2.0",
        "the usual choice; many languages", 224, 35.4,
    ),
    EncoderPreset(
        "siglip2-large", "google/siglip2-large-patch16-256", _BOTH, 3565, "Apache-2.0",
        "better than siglip2 by its authors' numbers; with a GPU", 256, 162.6,
    ),
    EncoderPreset(
        "siglip2-so400m", "google/siglip2-so400m-patch14-384", _BOTH, 4583, "Apache-2.0",
        "the best here by its authors' numbers, and sees small things; with a good GPU", 384, 670.3,
    ),
    EncoderPreset(
        "clip-base", "openai/clip-vit-base-patch32", _BOTH, 609, "MIT",
        "English; for a machine without a GPU", 224, 8.8,
        revision="d15b5f29721ca72dac15f8526b284be910de18be",
    ),
    EncoderPreset(
        "clip", "openai/clip-vit-large-patch14", _BOTH, 1714, "MIT",
        "English; widely used, also for published features", 224, 162.0,
    ),
    EncoderPreset(
        "tinyclip-8m", "wkcn/TinyCLIP-ViT-8M-16-Text-3M-YFCC15M", _BOTH, 96, "MIT",
        "English; the smallest, for a first try or a weak machine", 224, 3.6,
    ),
    EncoderPreset(
        "tinyclip-39m", "wkcn/TinyCLIP-ViT-39M-16-Text-19M-YFCC15M", _BOTH, 335, "MIT",
        "English; small, close to clip-base by its authors' numbers", 224, 16.0,
    ),
    EncoderPreset(
        "minilm", "sentence-transformers/all-MiniLM-L6-v2", "sentences", 92, "Apache-2.0",
        "English sentences only, for subtitles",
    ),
)  # fmt: skip


def presets() -> tuple[EncoderPreset, ...]:
    """Models with a short name, the usual choice first.

    >>> [preset.name for preset in presets()][:2]
    ['siglip2', 'siglip2-large']
    """
    return _PRESETS


def find_preset(name: str) -> EncoderPreset | None:
    """The preset with this short name or hub name; None where there is none."""
    return next((preset for preset in _PRESETS if name in (preset.name, preset.hub)), None)


def prepared_encoders() -> list[str]:
    """Names of the image–text encoders whose weights are on this machine, in the order of ``presets``.

    Models without a short name, of a kind that can be used, follow under their hub names. Nothing is loaded.
    """
    ours = {preset.hub: preset for preset in _PRESETS}
    named = [preset.name for preset in _PRESETS if preset.kind == _BOTH and find_model(preset.hub) is not None]
    others = [name for name in cached_models() if name not in ours and _is_image_text(find_model(name))]
    return [*named, *others]


def _is_image_text(folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") in IMAGE_TEXT_TYPES
