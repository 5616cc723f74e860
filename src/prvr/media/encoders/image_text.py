"""Image–text encoders of the ``transformers`` library: CLIP, SigLIP, SigLIP 2 and others with the same two methods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prvr.media.encoders.base import Array, Encoder, require_pictures, unit_rows
from prvr.media.encoders.weights import best_device, load_pretrained
from prvr.media.errors import EncoderError
from prvr.media.frames import Fit, Image

_CPU_BATCH, _GPU_BATCH = 16, 128
_TEXT_BATCH = 64


class ImageTextEncoder(Encoder):
    """An image–text model from a folder, or one that ``prvr prepare`` downloaded; evaluation mode, float32."""

    def __init__(self, name: str, device: str | None = None):
        self.name = name
        self.device = best_device(device)
        self.pretrained = load_pretrained(name)
        self.model = self.pretrained.model
        missing = [m for m in ("get_image_features", "get_text_features") if not hasattr(self.model, m)]
        if missing:
            kind = type(self.model).__name__
            raise EncoderError(
                f"{name} is a {kind}, which has no {missing[0]}. An image–text model is needed (CLIP, SigLIP, …)."
            )
        self.model.to(self.device)
        self.batch = _CPU_BATCH if self.device.type == "cpu" else _GPU_BATCH
        config = _preprocessor_config(self.pretrained.folder)
        self.fit = _fit(config, self.model)
        self.mean, self.deviation = _triple(config, "image_mean"), _triple(config, "image_std")
        self.preprocessing = f"mean {list(self.mean)} std {list(self.deviation)}"
        text = getattr(self.model.config, "text_config", self.model.config)
        self.word_width = int(text.hidden_size)
        self.longest = int(text.max_position_embeddings)
        # SigLIP was trained on texts padded to full length; CLIP finds the end token at any position.
        self.padding = "max_length" if "siglip" in self.model.config.model_type else True
        self.width = self.encode_texts(["a"]).shape[1]

    @property
    def weights(self) -> str:  # type: ignore[override]
        return self.pretrained.weights

    @torch.inference_mode()
    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        if not images:
            return np.zeros((0, self.width), np.float32)
        pixels = torch.from_numpy(require_pictures(images, self.fit))  # (N, H, W, 3) uint8
        mean, deviation = (torch.tensor(v, device=self.device)[:, None, None] for v in (self.mean, self.deviation))
        rows = []
        for part in torch.split(pixels, self.batch):
            planes = part.to(self.device).permute(0, 3, 1, 2).float() / 255
            rows.append(_vectors(self.model.get_image_features(pixel_values=(planes - mean) / deviation)))
        return unit_rows(np.concatenate(rows))

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Array:
        if not texts:
            return np.zeros((0, self.width), np.float32)
        parts = [texts[i : i + _TEXT_BATCH] for i in range(0, len(texts), _TEXT_BATCH)]
        return unit_rows(
            np.concatenate([_vectors(self.model.get_text_features(**self._tokens(part))) for part in parts])
        )

    @torch.inference_mode()
    def encode_words(self, text: str) -> Array:
        inputs = self._tokens([text])
        states = self.model.text_model(**inputs).last_hidden_state[0]  # (L, Dq)
        real = (
            inputs["attention_mask"][0].bool()
            if "attention_mask" in inputs
            else torch.ones(len(states), dtype=torch.bool)
        )
        return states[real].float().cpu().numpy() if real.any() else states[:1].float().cpu().numpy()

    def _tokens(self, texts: Sequence[str]) -> dict[str, Any]:
        tokens = self.pretrained.tokens(texts, self.longest, self.padding)
        return {
            name: values.to(self.device) for name, values in tokens.items() if name in ("input_ids", "attention_mask")
        }


def _vectors(output: Any) -> Array:
    """The output as an array. Depending on its version, the library returns a tensor or an object that holds it."""
    tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return tensor.float().cpu().numpy()


def _preprocessor_config(folder: Path) -> dict[str, Any]:
    path = folder / "preprocessor_config.json"
    nested = folder / "processor_config.json"  # newer models keep it inside this one
    try:
        if path.is_file():
            config = json.loads(path.read_text("utf-8"))
        elif nested.is_file():
            config = json.loads(nested.read_text("utf-8"))["image_processor"]
        else:
            raise EncoderError(
                f"{folder} has no preprocessor_config.json, which states how pictures are prepared for the model."
            )
    except (ValueError, KeyError) as problem:
        raise EncoderError(f"The image preprocessing of {folder} cannot be read ({problem}).") from problem
    if not isinstance(config, dict):
        raise EncoderError(f"{path} does not hold a JSON object.")
    return config


def _fit(config: dict[str, Any], model: Any) -> Fit:
    """The size of the model's pictures: cut from the middle where its configuration says so, else stretched."""
    crop = config.get("crop_size") if config.get("do_center_crop") else None
    size = crop or config.get("size") or {}
    side = size if isinstance(size, int) else size.get("height", size.get("shortest_edge"))
    if side is None:
        side = getattr(getattr(model.config, "vision_config", model.config), "image_size", None)
    if side is None:
        raise EncoderError(f"The model's preprocessing states no picture size (found {size!r}).")
    width = side if isinstance(size, int) else size.get("width", side)
    return Fit(int(width), int(side), "cover" if crop else "stretch")


def _triple(config: dict[str, Any], name: str) -> tuple[float, float, float]:
    red, green, blue = config.get(name) or (0.5, 0.5, 0.5)
    return float(red), float(green), float(blue)
