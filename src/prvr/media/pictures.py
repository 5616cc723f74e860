"""Read and write single pictures as image files."""

from __future__ import annotations

import math
import re
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from prvr.media.containers import open_limited
from prvr.media.errors import MediaError
from prvr.media.frames import Image
from prvr.media.packages import require_av
from prvr.media.reader import require_file

PICTURE_PROGRAM = "prvr.media.picture_server"  # run with `python -m`, to decode in a separate process
MOST_PIXELS = 64_000_000  # of a picture that is read; a small file can hold many more
MOST_NARROW = 20  # one side by the other; encoders scale the short side up, so that a line would fill the memory
_OR_TOO_LARGE = f", or has more than {MOST_PIXELS // 1_000_000} million pixels"
_FORMATS = {"mjpeg": rb"\xff\xd8\xff", "png": rb"\x89PNG\r\n\x1a\n", "webp": rb"RIFF....WEBP"}  # how files begin


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
    """Read a picture file, in any format that FFmpeg reads, as (H, W, 3), turned upright.

    Raises:
        MediaError: the file is not a picture, or it has more than ``MOST_PIXELS``.
    """
    av = require_av("reads pictures")
    source = require_file(path)
    limit = {"max_pixels": str(MOST_PIXELS)}
    try:
        with open_limited(av, str(source), "file", limit) as container:
            if container.streams.video[0].codec_context is None:  # FFmpeg knows the kind of file, but cannot decode it
                raise ValueError
            container.streams.video[0].codec_context.options = limit
            return _upright(next(container.decode(video=0)), source)
    except (av.FFmpegError, StopIteration, IndexError, ValueError) as problem:
        raise MediaError(source, f"is not a picture that can be read{_OR_TOO_LARGE}") from problem


def decode_picture(content: bytes, side: int | None = None) -> Image:
    """The picture in the content of a .jpg, .png or .webp file, as (H, W, 3), turned upright.

    Only the decoder of its format is run, so that nothing in the content can name another file or format.

    Args:
        content: the bytes of the file.
        side: scale the picture down to sides of at most this many pixels.

    Raises:
        MediaError: it is not such a picture, or it has more than ``MOST_PIXELS``.
    """
    av = require_av("reads pictures")
    codec = next((name for name, begins in _FORMATS.items() if re.match(begins, content, re.DOTALL)), None)
    if codec is None:
        raise MediaError("the picture", "is not a .jpg, .png or .webp file")
    decoder = av.CodecContext.create(codec, "r")
    decoder.thread_count, decoder.options = 1, {"max_pixels": str(MOST_PIXELS)}
    try:
        frame = next(iter([*decoder.decode(av.Packet(content)), *decoder.decode(None)]))
        return _upright(frame, "the picture", side)
    except (av.FFmpegError, StopIteration, ValueError) as problem:
        raise MediaError("the picture", f"is damaged, or animated{_OR_TOO_LARGE}") from problem


def _upright(frame: Any, source: str | PurePath, side: int | None = None) -> Image:
    """A decoded picture as RGB, turned as its file says; what is transparent becomes white."""
    if max(frame.width, frame.height) > MOST_NARROW * min(frame.width, frame.height):
        raise MediaError(source, f"has a side that is more than {MOST_NARROW} times as long as the other")
    scale = min(1.0, (side or math.inf) / max(frame.width, frame.height))
    width, height = (max(1, round(length * scale)) for length in (frame.width, frame.height))
    if any(component.is_alpha for component in frame.format.components):
        rgba = frame.reformat(width, height, "rgba").to_ndarray().astype(np.uint16)
        opacity = rgba[..., 3:]
        image = ((rgba[..., :3] * opacity + 255 * (255 - opacity)) // 255).astype(np.uint8)
    else:
        image = frame.reformat(width, height, "rgb24").to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))
