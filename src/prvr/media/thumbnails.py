"""A small picture of a video at a given time, ready to be shown on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prvr.media.errors import MediaError
from prvr.media.pictures import picture_bytes
from prvr.media.reader import require_file

THUMBNAIL_PROGRAM = "prvr.media.thumbnail_server"  # run with `python -m`, to decode in a process of its own
_PATIENCE = 600  # pictures decoded after the key frame before the last one is taken as it is


def thumbnail(path: str | Path, time: float, width: int = 320) -> bytes:
    """What is on screen at ``time`` (seconds), as a JPEG at most ``width`` wide. Imports nothing but the decoder."""
    import av

    from prvr.media.pyav_reader import open_container, start_seconds, video_stream  # says which extra is missing

    source = require_file(path)
    with open_container(source) as container:
        stream = video_stream(container, source)
        origin = start_seconds(container) or 0.0
        shown = None
        try:
            if time > 0:
                container.seek(round((time + origin) * av.time_base))
            for number, picture in enumerate(container.decode(stream)):
                if shown is not None and ((picture.time or 0.0) - origin > time or number > _PATIENCE):
                    break
                shown = picture
        except (av.error.FFmpegError, EOFError, ValueError) as problem:
            if shown is None:
                raise MediaError(source, f"no picture could be decoded at {time:.1f} s") from problem
        if shown is None:
            raise MediaError(source, f"no picture could be decoded at {time:.1f} s")
        return _jpeg(shown, float(stream.sample_aspect_ratio or 1), width)


def _jpeg(picture: Any, aspect: float, width: int) -> bytes:
    """Upright, with square pixels, even sides."""
    turns = -round(picture.rotation / 90) % 4
    wide, high = picture.width * aspect, float(picture.height)
    scale = min(1.0, width / (high if turns % 2 else wide))
    size = [max(2, round(side * scale / 2) * 2) for side in (wide, high)]
    scaled = picture.reformat(size[0], size[1], "rgb24")
    return picture_bytes(np.rot90(scaled.to_ndarray(), -turns))
