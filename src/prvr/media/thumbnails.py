"""A small picture of a video at a given time, ready to be shown on a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from prvr.media.buckets import VideoFile
from prvr.media.containers import demuxed, open_container, start_seconds, video_stream
from prvr.media.errors import MediaError
from prvr.media.packages import require_av
from prvr.media.pictures import picture_bytes
from prvr.media.reader import require_file

THUMBNAIL_PROGRAM = "prvr.media.thumbnail_server"  # run with `python -m`, to decode in a separate process
_MOST_DECODED = 600  # pictures decoded after the key frame; then the last one is used as it is


def thumbnail(path: str | VideoFile, time: float, width: int = 320) -> bytes:
    """What is on screen at ``time`` (seconds), as the content of a JPEG file at most ``width`` pixels wide.

    Raises:
        MediaError: the file is not a video, or nothing can be decoded there.
    """
    av = require_av()
    source = require_file(path)
    with open_container(source) as container:
        stream = video_stream(container, source)
        origin = start_seconds(container) or 0.0
        shown = None
        try:
            if time > 0:
                container.seek(round((time + origin) * av.time_base))
            pictures = (picture for packet in demuxed(container, stream) for picture in packet.decode())
            for number, picture in enumerate(pictures):
                if shown is not None and ((picture.time or 0.0) - origin > time or number > _MOST_DECODED):
                    break
                shown = picture
        except (av.error.FFmpegError, EOFError, ValueError) as problem:
            if shown is None:
                raise MediaError(source, f"no frame could be decoded at {time:.1f} s") from problem
        if shown is None:
            raise MediaError(source, f"no frame could be decoded at {time:.1f} s")
        return _jpeg(shown, float(stream.sample_aspect_ratio or 1), width)


def _jpeg(picture: Any, aspect: float, width: int) -> bytes:
    """Turned upright, with square pixels; encoders of JPEG need even sides."""
    turns = -round(picture.rotation / 90) % 4
    wide, high = picture.width * aspect, float(picture.height)
    scale = min(1.0, width / (high if turns % 2 else wide))
    size = [max(2, round(side * scale / 2) * 2) for side in (wide, high)]
    scaled = picture.reformat(size[0], size[1], "rgb24")
    return picture_bytes(np.rot90(scaled.to_ndarray(), -turns))
