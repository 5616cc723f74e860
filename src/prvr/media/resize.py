"""Bring a picture to a size without a video decoder at hand."""

from __future__ import annotations

import numpy as np

from prvr.media.frames import Fit, Image


def resize(image: Image, width: int, height: int) -> Image:
    """(H, W, 3) → (height, width, 3), smoothed where it shrinks."""
    if image.shape[:2] == (height, width):
        return image
    import torch  # takes seconds to import, and decoding alone does not need it
    from torch.nn.functional import interpolate

    planes = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    scaled = interpolate(planes, (height, width), mode="bicubic", antialias=True)
    return scaled[0].permute(1, 2, 0).contiguous().numpy()


def fitted(image: Image, fit: Fit) -> Image:
    """A picture as an encoder asks for it.

    >>> fitted(np.zeros((360, 640, 3), np.uint8), Fit(32, 32, "cover")).shape
    (32, 32, 3)
    """
    scaled = resize(image, *fit.scaled(image.shape[1], image.shape[0]))
    return scaled if fit.mode == "stretch" else fit.cut(scaled)
