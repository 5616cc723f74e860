"""Read and write single pictures as image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prvr.media.errors import MediaError
from prvr.media.frames import Image
from prvr.media.packages import require_av
from prvr.media.reader import require_file


def save_picture(path: str | Path, image: Image) -> Path:
    """Write a picture to a .png or .jpg file and return its path."""
    path = Path(path)
    path.write_bytes(picture_bytes(image, path.suffix))
    return path


def picture_bytes(image: Image, suffix: str = ".jpg") -> bytes:
    """The content of a .png or .jpg file that holds a picture."""
    av = require_av("writes pictures")
    codecs = {".png": ("png", "rgb24"), ".jpg": ("mjpeg", "yuvj420p"), ".jpeg": ("mjpeg", "yuvj420p")}
    if suffix.lower() not in codecs:
        raise ValueError(f"Pictures are written as .png or .jpg; got {suffix!r}.")
    codec, layout = codecs[suffix.lower()]
    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height, encoder.pix_fmt = image.shape[1], image.shape[0], layout
    encoder.time_base = 1
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24").reformat(format=layout)
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def load_picture(path: str | Path) -> Image:
    """Read a picture file, in any format that FFmpeg reads, as (H, W, 3)."""
    av = require_av("reads pictures")
    source = require_file(path)
    try:
        with av.open(str(source), options={"protocol_whitelist": "file"}) as container:
            return next(container.decode(video=0)).to_ndarray(format="rgb24")
    except (av.FFmpegError, StopIteration, IndexError) as problem:
        raise MediaError(source, "is not a picture that can be read") from problem
