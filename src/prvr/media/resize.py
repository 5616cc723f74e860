"""Scale pictures to the size that an encoder expects."""

from __future__ import annotations

from typing import Literal

import numpy as np

from prvr.media.frames import Fit, Image


def resize(image: Image, width: int, height: int, mode: Literal["bilinear", "bicubic"] = "bicubic") -> Image:
    """Scale a picture (H, W, 3) to (height, width, 3), with smoothing where it shrinks.

    On 8-bit numbers torch rounds between the two directions, as Pillow does. Floating-point numbers would give others.
    """
    if image.shape[:2] == (height, width):
        return image
    import torch  # takes seconds to import, and decoding alone does not need it
    from torch.nn.functional import interpolate

    planes = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    scaled = interpolate(planes, (height, width), mode=mode, antialias=True)
    # Copied by numpy: torch would wait for its threads, which the decoder's keep busy.
    return np.ascontiguousarray(scaled[0].numpy().transpose(1, 2, 0))


def fit_picture(image: Image, fit: Fit) -> Image:
    """Scale a picture to the size that an encoder asks for.

    >>> fit_picture(np.zeros((360, 640, 3), np.uint8), Fit(32, 32, "cover")).shape
    (32, 32, 3)
    """
    size = fit.scaled(image.shape[1], image.shape[0])
    scaled = resize(image, *size, "bicubic" if fit.filter == "quick" else fit.filter)
    return scaled if fit.mode == "stretch" else fit.cut(scaled)
