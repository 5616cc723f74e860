"""The part of an image–text model of the ``transformers`` library that sees pictures."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

_NAMES = ("vision_model", "visual_projection")  # of its modules, in CLIP, SigLIP and their kind


def picture_parts(model: Any) -> list[Any]:
    """The modules that pictures pass."""
    return [getattr(model, name) for name in _NAMES if hasattr(model, name)]


def with_own_picture_part(model: Any) -> Any:
    """The same model with a picture part of its own, which may be changed while others use the model.

    Its layers are its own everywhere, and may be replaced; weights outside the picture part are shared.
    """
    copied = {id(weights) for part in picture_parts(model) for weights in _weights(part)}
    shared = {id(weights): weights for weights in _weights(model) if id(weights) not in copied}
    return copy.deepcopy(model, shared)


def _weights(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def picture_vectors(model: Any, pixels: Tensor) -> Tensor:
    """A model's vectors of pictures, (N, 3, H, W) → (N, D)."""
    output = model.get_image_features(pixel_values=pixels)
    # depending on its version, the library returns a tensor or an object that holds it
    return output if isinstance(output, Tensor) else output.pooler_output
