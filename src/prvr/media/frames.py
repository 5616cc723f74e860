"""What a reader returns: facts about a file, and frames with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile

ScalingFilter = Literal["quick", "bilinear", "bicubic"]
Image = NDArray[np.uint8]  # (height, width, 3), RGB
USUAL_RATE = 25.0  # pictures per second of a video whose rate is not known


class Frame(NamedTuple):
    """The picture on screen at a time."""

    time: float  # seconds, as a player shows them
    image: Image


@dataclass(frozen=True)
class StreamInfo:
    """One stream of a file."""

    kind: str  # video, audio, subtitle, data, attachment
    codec: str
    language: str | None = None


@dataclass(frozen=True)
class VideoInfo:
    """Facts about a video, as a player would show it: sizes are after rotation, with square pixels."""

    path: VideoFile
    duration: float | None  # seconds; None where the file does not state it
    width: int
    height: int
    rotation: int  # degrees clockwise that stored pictures are turned by: 0, 90, 180 or 270
    fps: float | None  # average; an estimate where the rate varies
    codec: str
    streams: tuple[StreamInfo, ...] = ()


@dataclass(frozen=True)
class Fit:
    """The picture size that an encoder expects, and how pictures are scaled to it.

    ``stretch`` ignores the aspect ratio. ``cover`` keeps it, fills the size and cuts the rest off evenly on both sides.

    ``bilinear`` and ``bicubic`` give the pictures that Pillow's filters of these names give, from full-size RGB
    pictures. ``quick`` leaves it to the decoder, which scales while it converts colours; its pictures are similar.

    >>> Fit(224, 224, "cover").scaled(640, 360)
    (398, 224)
    >>> Fit(224, 224, "stretch").scaled(640, 360)
    (224, 224)
    """

    width: int
    height: int
    mode: Literal["stretch", "cover"] = "stretch"
    filter: ScalingFilter = "quick"
    short_side: int = 0  # of the scaled picture in mode ``cover``; 0: as short as fills the size

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture of ``width`` × ``height`` is scaled to, before anything is cut off."""
        if self.mode == "stretch":
            return self.width, self.height
        if self.short_side:  # the long side is rounded down, as image processors do
            short = min(width, height)
            return self.short_side * width // short, self.short_side * height // short
        scale = max(self.width / width, self.height / height)
        return max(self.width, round(width * scale)), max(self.height, round(height * scale))

    def cut(self, image: Image) -> Image:
        """The middle of a scaled picture, (height, width, 3)."""
        top, left = (image.shape[0] - self.height) // 2, (image.shape[1] - self.width) // 2
        return np.ascontiguousarray(image[top : top + self.height, left : left + self.width])
