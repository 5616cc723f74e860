"""InternVideo2 as an encoder of windows: eight frames become one vector, as in the published features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from prvr.media.encoders.base import Array, WindowEncoder, require_numbers
from prvr.media.encoders.hashes import file_hash
from prvr.media.encoders.internvideo2_model import FRAMES
from prvr.media.encoders.internvideo2_weights import load_tower
from prvr.media.encoders.preparation import PicturePreparation
from prvr.media.encoders.weights import best_device, weight_type
from prvr.media.frames import Fit

_NAMES = {(1408, 40): "internvideo2-1b", (3200, 48): "internvideo2-6b"}  # by width and depth
_CPU_BATCH, _GPU_BATCH = 1, 16  # windows
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the authors' configurations


class InternVideo2Encoder(WindowEncoder):
    """InternVideo2's CLIP video tower; float32 on a processor, bfloat16 on a GPU that multiplies it."""

    frames = FRAMES

    def __init__(self, place: str | Path, device: str | None = None):
        """
        Args:
            place: a file with the weights, or a folder with the files of one model.
            device: where it runs; by default a GPU if there is one.

        Raises:
            EncoderError: the weights cannot be used.
        """
        self.place, self.device = place, best_device(device)
        loaded = load_tower(Path(place), self.device, weight_type(self.device))
        self.model, sizes = loaded.model, loaded.sizes
        self.name = _NAMES.get((sizes.width, sizes.depth), f"internvideo2-{sizes.width}x{sizes.depth}")
        self.weights, self.width = file_hash(*loaded.files), sizes.output
        self.batch = _GPU_BATCH if self.device.type == "cuda" else _CPU_BATCH
        self.fit = Fit(sizes.side, sizes.side, "stretch", "bicubic")
        self.pictures = PicturePreparation(self.fit, 1 / 255, _MEAN, _DEVIATION)
        self.preprocessing = str(self.pictures)

    @torch.inference_mode()
    def encode_windows(self, windows: NDArray[np.uint8]) -> Array:
        self.model.to(self.device)  # where it is, unless it was released
        pixels = self.pictures.pixels(torch.from_numpy(windows).to(self.device).flatten(0, 1))  # (B·8, 3, H, W)
        pixels = pixels.view(*windows.shape[:2], *pixels.shape[1:]).transpose(1, 2)  # (B, 3, 8, H, W)
        found: Array = self.model(pixels.to(self.model.cls_token.dtype)).float().cpu().numpy()
        return require_numbers(found, self.place)

    def release(self) -> None:
        self.model.cpu()
